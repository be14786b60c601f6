// The log-probabilities and the routing that the batcher reports for each token, and texts with a
// routing of their own, against whole passes.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <span>
#include <string_view>

#include "penstock/analysis/probe.h"
#include "penstock/base/error.h"
#include "penstock/infer/batcher.h"
#include "tests/infer/batcher_texts.h"

namespace penstock::batcher_test {
namespace {

using testing::tiny;

TEST(Batcher, LogProbabilitiesAreThoseOfTheLogits) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher());
  TextOrder wanted = order(letters(6, 8), 5, 2);
  wanted.likeliest = 3;
  wanted.routing = RoutingShown::logits;
  Heard heard;
  add(batcher, wanted, heard);
  run(batcher);
  std::vector<TokenId> tokens = wanted.prompt;
  ASSERT_EQ(heard.written.size(), 5u);
  for (const WrittenToken& token : heard.written) {
    const at::Tensor expected =
        torch::log_softmax(testing::whole(*model, tokens)[-1].to(torch::kDouble), -1);
    EXPECT_NEAR(token.logprob, expected[token.token].item<double>(), 1e-5);
    const auto [values, ids] = expected.topk(3);
    ASSERT_EQ(token.likeliest.size(), 3u);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(token.likeliest[static_cast<std::size_t>(i)].token, ids[i].item<std::int64_t>());
      EXPECT_NEAR(token.likeliest[static_cast<std::size_t>(i)].logprob, values[i].item<double>(),
                  1e-5);
    }
    tokens.push_back(token.token);
  }
}

TEST(Batcher, RoutingIsThatOfTheTokenBefore) {
  ModelConfig config = tiny("topk");
  config.router.k = 2;
  const auto model = model_of(config);
  Batcher batcher(model, bytes(), small_batcher());
  std::vector<Heard> heard(3);
  TextOrder wanted = order(letters(20, 8), 6, 2);
  add(batcher, order(letters(9, 1), 9, 1), heard[0]);
  wanted.routing = RoutingShown::logits;
  add(batcher, wanted, heard[1]);
  add(batcher, order(letters(30, 2), 9, 1), heard[2]);
  run(batcher);
  std::vector<TokenId> tokens = wanted.prompt;
  for (const WrittenToken& token : heard[1].written) {
    ASSERT_EQ(token.routing.size(), 2u);
    std::int64_t layers = 0;
    const torch::NoGradGuard no_grad;
    model->forward(
        {.tokens = testing::as_tensor(tokens)}, {},
        [&](std::int64_t layer, const RoutingResult& result) {
          const at::Tensor gates = analysis::dense_gates(result.plan)[-1];
          const auto& own = token.routing[static_cast<std::size_t>(layer)];
          ASSERT_EQ(own.experts.size(), 2u);
          for (const ExpertShare& share : own.experts)
            EXPECT_NEAR(share.weight, gates[share.expert].item<float>(), 1e-5);
          ASSERT_EQ(own.logits.size(), 4u);
          for (std::size_t e = 0; e < 4; ++e)
            EXPECT_NEAR(own.logits[e],
                        result.scores.logits[-1][static_cast<std::int64_t>(e)].item<float>(), 1e-4);
          ++layers;
        });
    EXPECT_EQ(layers, 2);
    tokens.push_back(token.token);
  }
  EXPECT_TRUE(heard[0].written[0].routing.empty());
}

/// The order's tokens, each sampled from the logits of a whole pass with the order's routing.
std::vector<TokenId> by_whole_passes(LanguageModel& model, const TextOrder& wanted) {
  const torch::NoGradGuard no_grad;
  std::vector<TokenId> tokens = wanted.prompt, out;
  while (std::ssize(out) < wanted.options.max_tokens) {
    const at::Tensor hidden =
        model.forward({.tokens = testing::as_tensor(tokens)}, context_of(wanted.choice)).hidden;
    const at::Tensor logits = model.logits(hidden)[-1].contiguous();
    const std::span<const float> all(logits.data_ptr<float>(),
                                     static_cast<std::size_t>(logits.numel()));
    const TokenId token = sample(all, wanted.options.sampling, 0, out.size());
    if (token == bytes().end_of_document()) break;
    out.push_back(token);
    tokens.push_back(token);
  }
  return out;
}

TEST(Batcher, TextsOfOneStepMayHaveTheirOwnRouting) {
  for (const char* method : {"topk", "remoe"}) {
    const auto model = model_of(tiny(method));
    Batcher batcher(model, bytes(), small_batcher());
    const bool relu = std::string_view(method) == "remoe";
    std::vector<TextOrder> wanted;
    std::vector<Heard> heard(3);
    for (int i = 0; i < 3; ++i) {
      // The prompts are equal, but a prompt read with another routing cannot be reused.
      wanted.push_back(order(letters(40, 8), 30, 1));
      if (relu)
        wanted.back().choice.logit_shift = 0.8 * i;
      else
        wanted.back().choice.k = i + 1;
      add(batcher, wanted.back(), heard[static_cast<std::size_t>(i)]);
    }
    run(batcher);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(heard[i].tokens, by_whole_passes(*model, wanted[i]));
    EXPECT_NE(heard[0].tokens, heard[2].tokens) << method;
  }
}

TEST(Batcher, ARoutingThatTheModelDoesNotTakeIsRefused) {
  Batcher batcher(model_of(tiny("remoe")), bytes(), small_batcher());
  TextOrder wanted = order(letters(4, 1), 2, 1);
  wanted.choice.k = 2;
  EXPECT_THROW(batcher.add(wanted), Error);
  Batcher other(model_of(tiny("topk")), bytes(), small_batcher());
  wanted.choice = {.k = 5};
  EXPECT_THROW(other.add(wanted), Error);
  wanted.choice = {.logit_shift = 1};
  EXPECT_THROW(other.add(wanted), Error);
  EXPECT_TRUE(batcher.idle() && other.idle());
}

}  // namespace
}  // namespace penstock::batcher_test
