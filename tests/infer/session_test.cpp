// A session's logits against the logits of one pass over the whole sequence: dense and MoE decoders
// of every kind, folded routers, batches of different lengths, and Transformer-XL through its
// memory.
#include "penstock/infer/session.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/models/fold_routers.h"
#include "penstock/models/make_model.h"
#include "penstock/ops/dispatch.h"
#include "tests/base/error_of.h"
#include "tests/infer/support.h"

namespace penstock {
namespace {

using testing::random_tokens;
using testing::tiny;
using testing::whole;

/// Reads `prompt` tokens at once and the others one by one. @return the largest difference from the
/// logits of the whole pass, over the largest logit
double difference(const std::shared_ptr<LanguageModel>& model, std::size_t prompt) {
  const std::vector<TokenId> tokens = random_tokens(40, 5);
  const at::Tensor expected = whole(*model, tokens);  // [T, V]
  const auto session = make_session(model, {.capacity = 40});
  at::Tensor logits = session->begin(0, std::span(tokens).subspan(0, prompt));
  double most = 0;
  for (std::size_t t = prompt; t < tokens.size(); ++t) {
    most = std::max(
        most,
        (logits.flatten() - expected[static_cast<std::int64_t>(t) - 1]).abs().max().item<double>());
    const std::int64_t row = 0;
    logits = session->next({&row, 1}, std::span(tokens).subspan(t, 1));
  }
  return most / expected.abs().max().item<double>();
}

void expect_equal_to_whole(const ModelConfig& config) {
  torch::manual_seed(11);
  const auto model = make_model(config, 1);
  model->eval();
  for (const std::size_t prompt : {1, 5, 23}) EXPECT_LT(difference(model, prompt), 1e-5) << prompt;
  model->to(torch::kDouble);  // sessions hand out f32
  EXPECT_LT(difference(model, 5), 2e-7);
}

TEST(Session, DenseDecoderEqualsTheWhole) {
  expect_equal_to_whole(tiny("dense"));
  ModelConfig config = tiny("dense");
  config.kv_heads = 4;  // as many as heads
  config.tie_embeddings = true;
  expect_equal_to_whole(config);
  config.kv_heads = 1;
  config.qkv_bias = true;
  config.head_dim = 12;
  expect_equal_to_whole(config);
  config.rope_adjacent = true;
  config.rope_base = 500;
  expect_equal_to_whole(config);
}

TEST(Session, BiasesCount) {
  torch::manual_seed(12);
  ModelConfig config = tiny("dense");
  config.qkv_bias = true;
  const auto model = make_model(config, 1);
  model->eval();
  {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : model->named_parameters())
      if (parameter.key().ends_with("bias")) parameter.value().normal_(0, 0.5);
  }
  EXPECT_LT(difference(model, 7), 1e-5);
}

TEST(Session, NormsAndCutsOfQueriesAndKeysCount) {
  ModelConfig config = tiny("dense");
  config.qk_norm = true;
  config.clip_qkv = 0.8;
  expect_equal_to_whole(config);
}

TEST(Session, SharedExpertsCount) {
  ModelConfig config = tiny("topk");
  config.router.k = 2;
  config.moe.shared_width = 20;
  config.moe.shared_gate = true;
  expect_equal_to_whole(config);
}

TEST(Session, MoeDecodersEqualTheWhole) {
  for (const char* method :
       {"topk", "remoe", "hash", "hyperrouter", "xmoe", "smoe-dropout", "expert-choice"}) {
    SCOPED_TRACE(method);
    ModelConfig config = tiny(method);
    if (resolve(config.router).traits.has_k) config.router.k = 2;
    expect_equal_to_whole(config);
  }
  ModelConfig config = tiny("topk");
  config.moe.every = 2;
  config.moe.granularity = 2;
  expect_equal_to_whole(config);
}

TEST(Session, FoldedRoutersEqualTheWhole) {
  torch::manual_seed(13);
  ModelConfig config = tiny("hyperrouter");
  config.router.k = 2;
  const auto model = make_model(config, 1);
  model->eval();
  const auto folded = fold_routers(*model);
  EXPECT_LT(difference(folded, 6), 1e-5);
  const std::vector<TokenId> tokens = random_tokens(20, 1);
  EXPECT_LT((whole(*folded, tokens) - whole(*model, tokens)).abs().max().item<double>(), 1e-5);
}

TEST(Session, FastPathsRan) {
  torch::manual_seed(14);
  const auto model = make_model(tiny("topk"), 1);
  model->eval();
  const auto session = make_session(model, {.capacity = 40});
  const std::vector<TokenId> tokens = random_tokens(20, 2);
  ops::reset_dispatch_counts();
  session->begin(0, tokens);
  EXPECT_EQ(ops::dispatch_counts()["cached_attention/prompt"], 2);
  ops::reset_dispatch_counts();
  const std::int64_t row = 0;
  session->next({&row, 1}, std::span(tokens).subspan(0, 1));
  auto counts = ops::dispatch_counts();
  EXPECT_EQ(counts["cached_attention/step"], 2);
  EXPECT_EQ(counts["expert_ffn/rows"], 2);
  EXPECT_EQ(counts["linear/rows"], 2 * 3 + 1);  // projections and router of two layers, the head
}

TEST(Session, RowsOfDifferentLengthsAreAsAlone) {
  for (const char* method : {"dense", "topk", "remoe"}) {
    SCOPED_TRACE(method);
    torch::manual_seed(15);
    const auto model = make_model(tiny(method), 1);
    model->eval();
    const std::vector<std::vector<TokenId>> texts{random_tokens(9, 6), random_tokens(30, 7),
                                                  random_tokens(18, 8)};
    const std::vector<TokenId> next{3, 1, 4};
    const auto together = make_session(model, {.sequences = 3, .capacity = 40});
    for (const std::int64_t r : {2, 0, 1})  // begun in any order
      together->begin(r, texts[static_cast<std::size_t>(r)]);
    const std::vector<std::int64_t> rows{1, 2, 0};
    const at::Tensor all = together->next(rows, next);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto alone = make_session(model, {.capacity = 40});
      const std::int64_t row = 0;
      const auto text = texts[static_cast<std::size_t>(rows[i])];
      alone->begin(0, text);
      const at::Tensor logits = alone->next({&row, 1}, {&next[i], 1});
      EXPECT_TRUE(logits[0].equal(all[static_cast<std::int64_t>(i)])) << i;
      std::vector<TokenId> longer = text;
      longer.push_back(next[i]);
      EXPECT_LT((whole(*model, longer)[-1] - logits[0]).abs().max().item<double>(), 1e-5);
    }
  }
}

TEST(Session, SeveralTokensInOnePassHaveTheBitsOfOneByOne) {
  for (const char* method : {"dense", "topk", "remoe", "hyperrouter"}) {
    SCOPED_TRACE(method);
    const auto model = make_model(tiny(method), 15);
    model->eval();
    const auto session = make_rewindable_session(model, {.sequences = 2, .capacity = 60});
    const std::vector<TokenId> tokens = random_tokens(36, 4);
    const std::int64_t row = 1;
    session->begin(row, std::span(tokens).first(20));
    const at::Tensor all = session->read(row, std::span(tokens).subspan(20, kFewTokens));
    session->rewind(row, 20);
    for (std::size_t i = 0; i < kFewTokens; ++i)
      EXPECT_TRUE(session->next({&row, 1}, std::span(tokens).subspan(20 + i, 1))[0].equal(
          all[static_cast<std::int64_t>(i)]));
    EXPECT_THROW(session->rewind(row, 37), AssertionError);
  }
}

TEST(Session, ARowBeginsAnew) {
  torch::manual_seed(16);
  for (const bool xl : {false, true}) {
    const auto model = make_model(xl ? testing::tiny_xl(64) : tiny("topk"), 1);
    model->eval();
    const auto session = make_session(model, {.capacity = 30});
    const std::vector<TokenId> first = random_tokens(28, 1), second = random_tokens(12, 2);
    const at::Tensor fresh = make_session(model, {.capacity = 30})->begin(0, second);
    session->begin(0, first);
    EXPECT_TRUE(session->begin(0, second).equal(fresh));
  }
}

TEST(Session, TransformerXlEqualsTheWholeWithinItsMemory) {
  torch::manual_seed(17);
  for (const char* method : {"dense", "smoe"}) {
    const auto model = make_model(testing::tiny_xl(64, method), 1);
    model->eval();
    for (const std::size_t prompt : {1, 9, 16})
      EXPECT_LT(difference(model, prompt), 1e-5) << prompt;
  }
}

TEST(Session, TransformerXlReadsPromptsInSegmentsOfItsContext) {
  // With a memory of 8, reading in segments of 16 differs from one pass over 40. A session must
  // give the logits that segments give.
  torch::manual_seed(18);
  const auto model = make_model(testing::tiny_xl(8), 1);
  model->eval();
  const std::vector<TokenId> tokens = random_tokens(40, 9);
  const torch::NoGradGuard no_grad;
  ModelMemory memory;
  at::Tensor expected;
  for (const std::int64_t first : {0, 16, 32}) {
    ModelOutput out = model->forward({.tokens = testing::as_tensor(tokens).narrow(
                                          1, first, std::min<std::int64_t>(16, 40 - first)),
                                      .memory = memory},
                                     {});
    memory = out.memory;
    expected = model->logits(out.hidden)[-1];
  }
  const at::Tensor logits = make_session(model, {.capacity = 40})->begin(0, tokens);
  EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-6);
  EXPECT_GT((logits - whole(*model, tokens)[-1]).abs().max().item<double>(), 1e-4);
}

TEST(Session, RoutersThatAreNotCausalAreRefusedWithTheReason) {
  for (const char* method : {"expert-choice", "lory", "gshard"}) {
    ModelConfig config = tiny(method);
    if (config.router.method == "expert-choice") config.router.balancers.emplace();
    const auto model = make_model(config, 1);
    testing::expect_error([&] { make_session(model, {}); }, {"tokens after it"});
  }
}

TEST(Session, CachesBeyondAnyMemoryAreErrors) {
  const auto model = make_model(tiny("dense"), 1);
  for (const std::int64_t capacity : {std::int64_t{1} << 40, std::int64_t{1} << 62})
    EXPECT_THROW(make_session(model, {.sequences = 16, .capacity = capacity}), Error);
}

TEST(Session, FullCachesAreErrors) {
  const auto model = make_model(tiny("dense"), 1);
  const auto session = make_session(model, {.capacity = 4});
  EXPECT_THROW(session->begin(0, random_tokens(5, 1)), Error);
  EXPECT_THROW(session->begin(1, random_tokens(2, 1)), std::exception);
  EXPECT_THROW(session->begin(0, {}), Error);
  session->begin(0, random_tokens(4, 1));
  const std::int64_t row = 0;
  EXPECT_THROW(session->next({&row, 1}, random_tokens(1, 1)), Error);
}

}  // namespace
}  // namespace penstock
