// The log-probabilities and the routing that the batcher reports for each token, and texts with a
// routing of their own, against whole passes.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/analysis/probe.h"
#include "penstock/base/error.h"
#include "penstock/base/random.h"
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
  for (const GeneratedToken& token : heard.written) {
    const at::Tensor expected =
        torch::log_softmax(testing::whole(*model, tokens)[-1].to(torch::kDouble), -1);
    EXPECT_NEAR(token.score.logprob, expected[token.token].item<double>(), 1e-5);
    const auto [values, ids] = expected.topk(3);
    ASSERT_EQ(token.score.likeliest.size(), 3u);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(token.score.likeliest[static_cast<std::size_t>(i)].token,
                ids[i].item<std::int64_t>());
      EXPECT_NEAR(token.score.likeliest[static_cast<std::size_t>(i)].logprob,
                  values[i].item<double>(), 1e-5);
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
  for (const GeneratedToken& token : heard[1].written) {
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

/// [passes][layers] of [E]: the gates of the last token of each pass. The first passes read the
/// prompt, in segments of the model's context where the model keeps a memory. Each further pass
/// reads one of the tokens that the text has.
std::vector<std::vector<at::Tensor>> gates_of_passes(LanguageModel& model, const TextOrder& wanted,
                                                     const std::vector<TokenId>& written) {
  RoutingContext context;
  context.generator = at::make_generator<at::CPUGeneratorImpl>(
      mix64(wanted.options.sampling.seed + static_cast<std::uint64_t>(wanted.sample)));
  const auto segment =
      model.caches() ? wanted.prompt.size() : static_cast<std::size_t>(model.config().context);
  std::vector<std::vector<TokenId>> passes;
  for (std::size_t at = 0; at < wanted.prompt.size(); at += segment)
    passes.emplace_back(wanted.prompt.begin() + static_cast<std::ptrdiff_t>(at),
                        wanted.prompt.begin() + static_cast<std::ptrdiff_t>(
                                                    std::min(at + segment, wanted.prompt.size())));
  const std::size_t before_last_of_prompt = passes.size() - 1;
  for (const TokenId token : written) passes.push_back({token});
  DecoderCache cache(model.config(), 1, 128, model.parameters().front().options());
  ModelMemory memory;
  const std::int64_t row = 0;
  std::vector<std::vector<at::Tensor>> out;
  const torch::NoGradGuard no_grad;
  for (const auto& tokens : passes) {
    const RoutingTap tap = [&](std::int64_t, const RoutingResult& result) {
      out.back().push_back(analysis::dense_gates(result.plan)[-1]);
    };
    out.emplace_back();
    if (model.caches())
      model.extend(testing::as_tensor(tokens), cache, {&row, 1}, context, tap);
    else
      memory = model
                   .forward({.tokens = testing::as_tensor(tokens), .memory = std::move(memory)},
                            context, tap)
                   .memory;
  }
  out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(before_last_of_prompt));
  return out;
}

TEST(Batcher, TextsOneAtATimeShowTheirRoutingToo) {
  for (const std::string method : {"switch", "thor", "xl"}) {
    SCOPED_TRACE(method);
    // The prompt of 20 tokens is two segments of the Transformer-XL.
    const auto model = model_of(method == "xl" ? testing::tiny_xl(64, "topk") : tiny(method));
    Batcher batcher(model, bytes(), small_batcher());
    TextOrder wanted = order(letters(20, 8), 6, 2);
    wanted.routing = RoutingShown::experts;
    Heard heard;
    add(batcher, wanted, heard);
    run(batcher);
    const auto expected = gates_of_passes(*model, wanted, heard.tokens);
    ASSERT_GE(heard.written.size(), 2u);
    std::size_t experts = 0;
    for (std::size_t i = 0; i < heard.written.size(); ++i) {
      const TokenRouting& routing = heard.written[i].routing;
      ASSERT_EQ(routing.size(), 2u);
      for (std::size_t layer = 0; layer < 2; ++layer) {
        std::vector<float> gates(4);
        for (const ExpertShare& share : routing[layer].experts)
          gates.at(static_cast<std::size_t>(share.expert)) = share.weight;
        for (std::size_t e = 0; e < 4; ++e)
          EXPECT_NEAR(gates[e], expected[i][layer][static_cast<std::int64_t>(e)].item<float>(),
                      1e-5);
        experts += routing[layer].experts.size();
      }
    }
    EXPECT_GE(experts, 2u);
  }
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
