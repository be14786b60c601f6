// Measurements of one layer and of the machine.
#include "penstock/bench/layer_bench.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/bench/machine_bench.h"
#include "penstock/models/counts/flops.h"
#include "penstock/ops/machine/machine.h"
#include "tests/bench/support.h"

namespace penstock::bench {
namespace {

using testing::bench_recipe;
using testing::kBandwidth;

LayerBench layer_of(const Recipe& recipe, std::int64_t tokens = 0, double active = 0) {
  LayerBenchOptions options;
  options.tokens = tokens;
  options.steps = 3;
  options.warm_up = 1;
  options.active_experts = active;
  options.memory_bandwidth = kBandwidth;
  return measure_layer(recipe, options);
}

TEST(LayerBench, CountsTheLayersOwnFlops) {
  // Multiply-adds per row: 3·16·24 an expert and 16·4 for the router. Each is 2 FLOPs, once in the
  // forward and twice in the backward pass.
  EXPECT_EQ(layer_of(bench_recipe("dense")).table.flops(), 32 * 6 * 3 * 16 * 24);
  EXPECT_EQ(layer_of(bench_recipe("topk", 2)).table.flops(), 32 * 6 * (2 * 3 * 16 * 24 + 16 * 4));
  EXPECT_EQ(layer_of(bench_recipe("topk", 2), 48).table.flops(),
            48 * 6 * (2 * 3 * 16 * 24 + 16 * 4));
}

TEST(LayerBench, UsefulFlopsAreThoseOfAllThatALayerDoes) {
  const double expert = 3 * 16 * 24, router = 16 * 4;
  const auto useful = [](const Recipe& recipe) { return layer_of(recipe).useful_flops; };
  EXPECT_EQ(useful(bench_recipe("dense")), 32 * 6 * expert);
  EXPECT_EQ(useful(bench_recipe("topk", 2)), 32 * 6 * (2 * expert + router));
  Recipe shared = bench_recipe("topk", 2);
  shared.model.moe.shared_width = 40;
  EXPECT_EQ(useful(shared), 32 * 6 * (2 * expert + router + 3 * 16 * 40));
  EXPECT_EQ(useful(bench_recipe("hash")), 32 * 6 * expert);  // hash routing computes no logits
  // Lory computes the router and the blend of four experts' weights once per segment.
  Recipe lory = bench_recipe("lory");
  lory.model.router.parts["lory"].set("segment_length", 8);
  const double a_segment = router + 4 * expert, per_token = rows_per_token(lory.model.resolved());
  EXPECT_EQ(per_token, 1.0 / 8);
  EXPECT_EQ(useful(lory), 32 * 6 * (expert + per_token * a_segment));
}

/// All weights are 0, so no expert has a token, and a leak computes 4 tokens for each of 4 experts.
TEST(LayerBench, ALeaksTokensAreFlopsButNoActiveExperts) {
  Recipe leaking = bench_recipe("remoe");
  leaking.model.init_std = 0;
  leaking.model.router.parts["relu"].set("leak", 0.5);
  const LayerBench layer = layer_of(leaking);
  EXPECT_EQ(layer.active_experts, 0);
  EXPECT_EQ(layer.useful_flops, 6 * (32 * 16 * 4 + 4 * 4 * 3 * 16 * 24));
}

TEST(LayerBench, ItsRateIsOfForwardAndBackward) {
  const LayerBench layer = layer_of(bench_recipe("topk"));
  EXPECT_EQ(layer.tokens, 32);  // the tokens of one micro-batch
  EXPECT_EQ(layer.experts, 4);
  EXPECT_DOUBLE_EQ(layer.active_experts, 1);
  EXPECT_GT(layer.optimizer_seconds, 0);
  EXPECT_GT(layer.useful_flops_per_second, 0);
  EXPECT_LT(layer.share_of_peak(), 1);
  EXPECT_LT(layer.table.operator_seconds(), layer.table.seconds);
  EXPECT_EQ(layer_of(bench_recipe("dense")).experts, 0);
}

TEST(LayerBench, HoldsActiveExperts) {
  EXPECT_NEAR(layer_of(bench_recipe("remoe"), 160, 1.5).active_experts, 1.5, 0.03);
  EXPECT_THROW(layer_of(bench_recipe("topk"), 0, 1), Error);
}

TEST(LayerBench, JsonHasItsKeys) {
  const LayerBench layer = layer_of(bench_recipe("topk"));
  for (const char* key : {"forward_seconds", "backward_seconds", "optimizer_seconds",
                          "share_of_peak", "peak_flops", "tokens", "experts"})
    EXPECT_TRUE(sweep_json(layer)[key].get<double>() > 0) << key;
  EXPECT_FALSE(sweep_json(layer).contains("operators"));
  EXPECT_FALSE(to_json(layer)["operators"].empty());
  EXPECT_EQ(to_json(layer)["load"].size(), 4u);
  EXPECT_NE(to_text(layer).find("outside named operators"), std::string::npos);
}

TEST(MachineBench, MeasuresBandwidthAndTheLastCache) {
  EXPECT_GT(ops::measure_memory_bandwidth(2, 3e6), 0);
  EXPECT_GE(ops::last_level_cache_bytes(), 0);
}

TEST(MachineBench, JsonHasTheKeysThatScriptsRelyOn) {
  MachineBench machine{
      .peak_flops_per_core = 1, .matmul_flops = 3, .instruction_set = ops::InstructionSet::avx2};
  machine.limits = {.threads = 2, .peak_flops = 2, .memory_bandwidth = 4};
  const auto out = to_json(machine);
  EXPECT_EQ(out["peak_flops"], 2);
  EXPECT_EQ(out["peak_flops_per_core"], 1);
  EXPECT_EQ(out["memory_bandwidth"], 4);
  EXPECT_EQ(out["matmul_flops"], 3);
  EXPECT_EQ(out["threads"], 2);
  EXPECT_EQ(out["instruction_set"], "avx2");
}

}  // namespace
}  // namespace penstock::bench
