// Texts written side by side against the same texts written alone, token by token, each through a
// session of its own. Texts come and go at any time, with any length and any seed.
#include "penstock/infer/batcher.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <span>

#include "penstock/base/error.h"
#include "penstock/infer/generate.h"
#include "penstock/infer/session.h"
#include "tests/base/error_of.h"
#include "tests/infer/batcher_texts.h"

namespace penstock::batcher_test {
namespace {

using testing::tiny;

/// The oracle: the order's tokens, where a session of the order's own reads every token by itself.
std::vector<TokenId> alone(const std::shared_ptr<LanguageModel>& model, const TextOrder& wanted) {
  const auto session =
      make_session(model, {.capacity = std::ssize(wanted.prompt) + wanted.options.max_tokens});
  const std::int64_t row = 0;
  at::Tensor logits = session->begin(0, std::span(wanted.prompt).first(1));
  for (std::size_t i = 1; i < wanted.prompt.size(); ++i)
    logits = session->next({&row, 1}, std::span(wanted.prompt).subspan(i, 1))[0];
  std::vector<TokenId> out;
  while (std::ssize(out) < wanted.options.max_tokens) {
    const std::span<const float> all(logits.data_ptr<float>(),
                                     static_cast<std::size_t>(logits.numel()));
    const TokenId token =
        sample(all, wanted.options.sampling, static_cast<std::uint64_t>(wanted.sample), out.size());
    if (token == bytes().end_of_document()) break;
    out.push_back(token);
    logits = session->next({&row, 1}, {&out.back(), 1})[0];
  }
  return out;
}

/// 14 texts of mixed lengths. They arrive while others are written, and there are more texts than
/// places.
std::vector<TextOrder> mixed_orders() {
  std::vector<TextOrder> out;
  const std::vector<TokenId> shared = letters(40, 77);
  for (std::uint64_t i = 0; i < 14; ++i) {
    std::vector<TokenId> prompt = i % 3 == 0 ? shared : std::vector<TokenId>();
    const auto own = letters(1 + (i * 13) % 50, i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    out.push_back(order(std::move(prompt), 3 + static_cast<std::int64_t>(i * 7 % 23), i,
                        i % 4 == 0 ? 0 : 1.1));
    out.back().sample = static_cast<std::int64_t>(i % 2);
  }
  return out;
}

void expect_equal_to_alone(const ModelConfig& config) {
  const auto model = model_of(config);
  const std::vector<TextOrder> orders = mixed_orders();
  for (const std::int64_t prompt_tokens : {7, 200}) {
    Batcher batcher(model, bytes(), small_batcher(prompt_tokens));
    std::vector<Heard> heard(orders.size());
    for (std::size_t i = 0; i < orders.size(); ++i) {
      add(batcher, orders[i], heard[i]);
      for (std::size_t s = 0; s < i % 4; ++s) batcher.step();  // some texts come later than others
    }
    run(batcher);
    for (std::size_t i = 0; i < orders.size(); ++i)
      EXPECT_EQ(heard[i].tokens, alone(model, orders[i])) << "text " << i;
    EXPECT_GT(batcher.counts().reused_tokens, 40);
  }
}

TEST(Batcher, TextsAreThoseWrittenAlone) {
  for (const char* method : {"dense", "topk", "remoe", "hash", "hyperrouter", "xmoe", "mlp",
                             "router-upcycling", "locmoe", "loss-free"}) {
    SCOPED_TRACE(method);
    expect_equal_to_alone(tiny(method));
  }
}

TEST(Batcher, OfOtherShapesToo) {
  ModelConfig config = tiny("topk");
  config.kv_heads = 4;
  config.tie_embeddings = true;
  config.qk_norm = true;
  config.qkv_bias = true;
  config.d_ffn = 70;  // no whole number of vectors, and more than a panel
  config.router.k = 2;
  config.moe.shared_width = 20;
  expect_equal_to_alone(config);
}

TEST(Batcher, ALongPromptInOnePartHasTheBitsOfEachTokenAlone) {
  const auto model = model_of(tiny("topk"));
  const TextOrder wanted = order(letters(300, 5), 20, 3);
  BatcherOptions options = small_batcher(1000);
  options.reader.capacity = 400;
  Batcher batcher(model, bytes(), options);
  Heard heard;
  add(batcher, wanted, heard);
  batcher.step();
  EXPECT_EQ(heard.tokens.size(), 1u);  // one pass read the whole prompt
  run(batcher);
  EXPECT_EQ(heard.tokens, alone(model, wanted));
}

TEST(Batcher, CancelledTextsLeaveOthersAlone) {
  const auto model = model_of(tiny("remoe"));
  const std::vector<TextOrder> orders = mixed_orders();
  Batcher batcher(model, bytes(), small_batcher());
  std::vector<Heard> heard(orders.size());
  std::vector<Batcher::Id> ids;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    ids.push_back(add(batcher, orders[i], heard[i]));
    batcher.step();
    if (i % 4 == 3) batcher.cancel(ids[i - 1]);  // a text that runs or waits
  }
  batcher.cancel(ids[0] + 1000);
  run(batcher);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const auto whole = alone(model, orders[i]);
    ASSERT_TRUE(heard[i].finish.has_value());
    if (*heard[i].finish != Finish::interrupted) {
      EXPECT_EQ(heard[i].tokens, whole) << i;
    } else {
      ASSERT_LE(heard[i].tokens.size(), whole.size());
      EXPECT_TRUE(
          std::ranges::equal(heard[i].tokens, std::span(whole).first(heard[i].tokens.size())));
    }
  }
  EXPECT_EQ(heard[2].finish, Finish::interrupted);
}

TEST(Batcher, ATextThatGoesOnReadsOnlyWhatIsNew) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher());
  const TextOrder first = order(letters(50, 1), 10, 1);
  Heard one, two;
  add(batcher, first, one);
  run(batcher);
  EXPECT_EQ(batcher.counts().prompt_tokens, 50);
  TextOrder second = order(first.prompt, 10, 2);
  second.prompt.insert(second.prompt.end(), one.tokens.begin(), one.tokens.end());
  second.prompt.push_back('x');
  const auto read = static_cast<std::int64_t>(second.prompt.size());
  add(batcher, second, two);
  run(batcher);
  EXPECT_EQ(two.tokens, alone(model, second));
  // The first text's last token was written and not read.
  EXPECT_EQ(batcher.counts().reused_tokens, read - 2);
  EXPECT_EQ(batcher.counts().prompt_tokens, 50 + 2);
}

TEST(Batcher, EqualPromptsAreReadOnce) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher(10));
  std::vector<Heard> heard(4);
  TextOrder wanted = order(letters(90, 1), 6, 1);
  for (std::size_t i = 0; i < heard.size(); ++i) {
    wanted.sample = static_cast<std::int64_t>(i);
    add(batcher, wanted, heard[i]);
  }
  run(batcher);
  for (std::size_t i = 0; i < heard.size(); ++i) {
    wanted.sample = static_cast<std::int64_t>(i);
    EXPECT_EQ(heard[i].tokens, alone(model, wanted));
  }
  EXPECT_GE(batcher.counts().reused_tokens, 3 * 50);
}

TEST(Batcher, OneStepServesAllTexts) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher());
  std::vector<Heard> heard(4);
  for (std::size_t i = 0; i < heard.size(); ++i) add(batcher, order(letters(3, i), 5, i), heard[i]);
  for (int step = 0; step < 3; ++step) batcher.step();
  EXPECT_EQ(batcher.counts().steps, 3);
  EXPECT_EQ(batcher.counts().written_tokens, 12);
}

TEST(Batcher, StopStringsContextAndLengthEndATextAsInGenerate) {
  ModelConfig config = tiny("topk");
  config.context = 30;
  const auto model = model_of(config);
  const std::string prompt = "abcdefgh";  // short enough that generate() has the same bits
  GenerateOptions options{.max_tokens = 60, .sampling = {.temperature = 1, .seed = 1}};
  const auto check = [&] {
    const Completion expected = generate(model, bytes(), {prompt}, options).completions[0];
    Batcher batcher(model, bytes(), small_batcher());
    Heard heard;
    add(batcher, {.prompt = prompt_tokens(bytes(), prompt), .options = options}, heard);
    run(batcher);
    EXPECT_EQ(heard.tokens, expected.tokens);
    EXPECT_EQ(heard.text, expected.text);
    EXPECT_EQ(heard.finish, expected.finish);
    return expected;
  };
  Completion whole = check();
  while (whole.finish != Finish::context && ++options.sampling.seed < 100) whole = check();
  EXPECT_EQ(whole.finish, Finish::context);
  options.max_tokens = 9;
  EXPECT_EQ(check().finish, Finish::length);
  options.stop = {whole.text.substr(3, 3)};
  EXPECT_EQ(check().finish, Finish::stop);
}

TEST(Batcher, ModelsWhoseTokensMeddleAreServedOneAtATimeAsGenerateDoes) {
  for (const std::string method : {"switch", "thor", "xl"}) {
    SCOPED_TRACE(method);
    const auto model = model_of(method == "xl" ? testing::tiny_xl(64) : tiny(method));
    EXPECT_FALSE(one_at_a_time(*model).empty());
    Batcher batcher(model, bytes(), small_batcher());
    const std::vector<std::string> prompts{"the first, which is longer than the others", "b", "cc"};
    std::vector<Heard> heard(prompts.size());
    const GenerateOptions options{.max_tokens = 12, .sampling = {.temperature = 1, .seed = 9}};
    for (std::size_t i = 0; i < prompts.size(); ++i)
      add(batcher, {.prompt = prompt_tokens(bytes(), prompts[i]), .options = options}, heard[i]);
    batcher.step();
    EXPECT_EQ(batcher.running(), 1);
    run(batcher);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(heard[i].tokens,
                generate(model, bytes(), {prompts[i]}, options).completions[0].tokens);
  }
}

TEST(Batcher, TheCapacityHoldsForModelsWithMemoryToo) {
  for (const bool memory : {false, true}) {
    SCOPED_TRACE(memory);
    BatcherOptions options = small_batcher();
    options.reader.capacity = 20;
    Batcher batcher(model_of(memory ? testing::tiny_xl(64) : tiny("topk")), bytes(), options);
    EXPECT_EQ(batcher.capacity(), 20);
    testing::expect_error([&] { batcher.add(order(letters(21, 1), 5, 1)); },
                          {"21 tokens long, more than the context of 20"});
    Heard heard;
    for (std::uint64_t seed = 0; heard.finish != Finish::context && seed < 20; ++seed) {
      heard = {};
      add(batcher, order(letters(12, 1), 60, seed), heard);
      run(batcher);
    }
    EXPECT_EQ(heard.finish, Finish::context);
    EXPECT_EQ(heard.tokens.size(), 9u);  // the last one is not read
  }
}

TEST(Batcher, ImpossibleOrdersAreRefusedAndFailuresTold) {
  const auto model = model_of(tiny("topk"));
  Batcher batcher(model, bytes(), small_batcher());
  EXPECT_THROW(batcher.add(order({}, 5, 1)), Error);
  EXPECT_THROW(batcher.add(order({1000}, 5, 1)), Error);
  EXPECT_THROW(batcher.add(order(letters(129, 1), 5, 1)), Error);
  EXPECT_THROW(batcher.add(order(letters(3, 1), 5, 1, -1)), Error);
  EXPECT_TRUE(batcher.idle());
  EXPECT_THROW(Batcher(model_of(tiny("lory")), bytes(), small_batcher()), Error);
  {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["norm.weight"].fill_(std::nan(""));
  }
  Heard heard;
  add(batcher, order(letters(3, 1), 5, 1), heard);
  run(batcher);
  testing::expect_says(heard.failure, {"NaN"});
  Heard all;
  add(batcher, order(letters(3, 1), 5, 1), all);
  batcher.fail_all("the reason");
  EXPECT_EQ(all.failure, "the reason");
  EXPECT_TRUE(batcher.idle());
}

}  // namespace
}  // namespace penstock::batcher_test
