// Figures of the generation bench, on a model small enough to count by hand. Speed is not tested.
#include "penstock/bench/generate_bench.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/make_model.h"
#include "tests/bench/support.h"

namespace penstock::bench {
namespace {

std::shared_ptr<LanguageModel> model_of(std::int64_t context) {
  torch::manual_seed(1);
  ModelConfig config{.vocab = 64, .d_model = 32, .layers = 2, .heads = 4, .d_ffn = 48};
  config.context = context;
  config.router.method = "topk";
  config.router.k = 2;
  config.moe.experts = 4;
  auto model = make_model(config, 1);
  model->eval();
  return model;
}

TEST(GenerateBench, CountsWhatAStepReads) {
  const GenerateBench bench =
      measure_generate(model_of(0), {.prompt = 20,
                                     .tokens = 6,
                                     .batch = 1,
                                     .repetitions = 1,
                                     .memory_bandwidth = testing::kBandwidth});
  EXPECT_GT(bench.prompt_tokens_per_second, 0);
  EXPECT_GT(bench.tokens_per_second, 0);
  // Parameters read: attention's four projections, the router and two of four experts, in both
  // layers, and the head.
  const double weights = 2 * (4 * 32 * 32 + 4 * 32 + 2 * 3 * 32 * 48) + 64 * 32;
  EXPECT_GT(bench.bytes_per_step, 4 * weights);
  EXPECT_LT(bench.bytes_per_step, 4 * weights * 1.5);  // activations, keys and values
  // Every weight matrix multiplies each token of the prompt, except the head, which multiplies the
  // last token only.
  const double per_token = bench.prompt.flops() / static_cast<double>(bench.options.prompt);
  EXPECT_GT(per_token, 2 * (weights - 64 * 32));
  EXPECT_LT(per_token, 2 * weights * 1.3);
  EXPECT_NEAR(bench.share_of_peak(),
              per_token * bench.prompt_tokens_per_second / bench.machine.peak_flops, 1e-12);
}

TEST(GenerateBench, ReportsEachFigure) {
  const GenerateBench bench =
      measure_generate(model_of(32), {.prompt = 3,
                                      .tokens = 2,
                                      .batch = 2,
                                      .repetitions = 1,
                                      .memory_bandwidth = testing::kBandwidth});
  const auto json = to_json(bench);
  for (const char* key :
       {"prompt_tokens_per_second", "generation_tokens_per_second", "tokens_per_second",
        "bytes_per_step", "share_of_bandwidth", "share_of_peak", "batch", "step_operators"})
    EXPECT_TRUE(json.contains(key)) << key;
  const std::string text = to_text(bench);
  EXPECT_NE(text.find("2 sequences, prompt 3 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("expert_ffn/rows"), std::string::npos) << text;
}

TEST(GenerateBench, NoMoreThanTheContext) {
  EXPECT_THROW(measure_generate(model_of(32), {.prompt = 30, .tokens = 3}), Error);
  EXPECT_THROW(measure_generate(model_of(32), {.prompt = -1, .tokens = 3}), Error);
}

TEST(GenerateBench, TakesWhatTheContextLeaves) {
  const auto lengths = [](std::int64_t prompt, std::int64_t tokens) {
    const GenerateBenchOptions measured =
        measure_generate(model_of(32), {.prompt = prompt,
                                        .tokens = tokens,
                                        .repetitions = 1,
                                        .memory_bandwidth = testing::kBandwidth})
            .options;
    return std::pair(measured.prompt, measured.tokens);
  };
  EXPECT_EQ(lengths(0, 0), std::pair(std::int64_t{16}, std::int64_t{16}));
  EXPECT_EQ(lengths(30, 0), std::pair(std::int64_t{30}, std::int64_t{2}));
  EXPECT_EQ(lengths(0, 3), std::pair(std::int64_t{29}, std::int64_t{3}));
}

}  // namespace
}  // namespace penstock::bench
