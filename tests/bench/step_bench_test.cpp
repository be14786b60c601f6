// A whole training step: its FLOPs against the closed form, the shares of its time, and its JSON.
#include "penstock/bench/step_bench.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/bench/synthetic.h"
#include "penstock/models/counts/flops.h"
#include "penstock/ops/machine/machine.h"
#include "tests/bench/support.h"

namespace penstock::bench {
namespace {

using testing::bench_recipe;
using testing::kBandwidth;

StepBench step_of(const Recipe& recipe, double active = 0) {
  return measure_step(
      recipe, {.steps = 3, .warm_up = 1, .active_experts = active, .memory_bandwidth = kBandwidth});
}

TEST(StepBench, TheOperatorsHaveExactlyTheUsefulFlops) {
  for (const char* method : {"dense", "topk"}) {
    const Recipe recipe = bench_recipe(method, method == std::string("dense") ? 1 : 2);
    const StepBench step = step_of(recipe);
    const double assignments = method == std::string("dense") ? 0 : 2 * 64 * 2;
    const double useful = useful_training_flops(recipe.model, 64, causal_pairs(4, 16), assignments);
    EXPECT_EQ(step.table.flops(), useful) << method;
    EXPECT_DOUBLE_EQ(step.flops, useful) << method;
    EXPECT_DOUBLE_EQ(step.flops_per_token(), useful / 64) << method;
  }
}

TEST(StepBench, OperatorsTakeLessThanTheStep) {
  const StepBench step = step_of(bench_recipe("topk"));
  EXPECT_GT(step.table.operator_seconds(), 0);
  EXPECT_LT(step.table.operator_seconds(), step.table.seconds);
  double scopes = 0;
  for (const auto& row : step.table.scopes) scopes += row.seconds;
  EXPECT_GT(scopes, 0);
  EXPECT_LT(scopes, step.table.outside_seconds());
  EXPECT_LE(step.forward_seconds, step.seconds);
  EXPECT_GT(step.share_of_peak(), 0);
  EXPECT_LT(step.share_of_peak(), 1);
}

TEST(StepBench, RecomputingExpertsSparesWhatTheyKeep) {
  if (!ops::restart_peak_memory()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written";
  Recipe recipe = bench_recipe("topk", 2);
  recipe.model.d_ffn = 2048;
  recipe.train.batch_sequences = recipe.train.micro_batch = 128;
  const double kept = step_of(recipe).peak_bytes;
  recipe.train.recompute_experts = true;
  // Kept activations: 2 layers · 128 · 16 · 2 assignments · 2 · 2048 floats = 134 MB.
  EXPECT_LT(step_of(recipe).peak_bytes, kept - 80e6);
}

TEST(StepBench, MemoryDoesNotGrowWithSteps) {
  if (!ops::restart_peak_memory()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written";
  Recipe recipe = bench_recipe("dense");
  recipe.model.d_ffn = 1024;
  recipe.train.batch_sequences = recipe.train.micro_batch = 64;
  const auto peak = [&](std::int64_t steps) {
    return measure_step(recipe, {.steps = steps, .warm_up = 2, .memory_bandwidth = kBandwidth})
        .peak_bytes;
  };
  // A leak of one feed-forward tensor a step would add 40 · 1024 · 1024 floats.
  EXPECT_LT(peak(42), peak(2) + 50e6);
}

TEST(StepBench, HoldsReluRoutingAtTheStatedMean) {
  for (const double target : {0.5, 1.0, 2.0}) {
    const StepBench step = step_of(bench_recipe("remoe"), target);
    EXPECT_NEAR(step.active_experts, target, 0.02 * target);
    ASSERT_EQ(step.load.size(), 2u);
    for (const auto& layer : step.load) {
      ASSERT_EQ(layer.size(), 4u);
      EXPECT_NEAR(std::accumulate(layer.begin(), layer.end(), 0.0), target, 0.02 * target);
    }
    // The FLOPs are computed from the measured number of active experts.
    EXPECT_NEAR(step.flops,
                useful_training_flops(bench_recipe("remoe").model, 64, causal_pairs(4, 16),
                                      64 * 2 * step.active_experts),
                1e-9 * step.flops);
  }
  // Without a target about half of the experts are active.
  EXPECT_NEAR(step_of(bench_recipe("remoe")).active_experts, 2, 0.6);
}

TEST(StepBench, SaysWhatItCannotMeasure) {
  EXPECT_THROW(step_of(bench_recipe("topk"), 1), Error);
  EXPECT_THROW(step_of(bench_recipe("dense"), 1), Error);
  EXPECT_THROW(step_of(bench_recipe("remoe"), 5), Error);
  Recipe waits = bench_recipe("dense");
  waits.model.vocab = 0;
  EXPECT_THROW(step_of(waits), Error);
  EXPECT_THROW(measure_step(bench_recipe("dense"), {.steps = 0}), Error);
}

TEST(StepBench, JsonHasTheKeysThatScriptsRelyOn) {
  const StepBench step = step_of(bench_recipe("remoe"), 1);
  const auto out = to_json(step);
  for (const char* key :
       {"tokens_per_second", "flops_per_token", "share_of_peak", "peak_bytes", "peak_flops",
        "seconds", "forward_seconds", "backward_seconds", "optimizer_seconds", "memory_bandwidth",
        "outside_share", "active_experts"})
    EXPECT_TRUE(out.contains(key) && out[key].get<double>() > 0) << key;
  EXPECT_EQ(out["threads"], 1);
  EXPECT_EQ(out["precision"], "fp32");
  EXPECT_EQ(out["load"].size(), 2u);
  double share = out["outside_share"];
  for (const auto& row : out["operators"]) {
    for (const char* key : {"seconds", "flops", "bytes", "share", "share_of_peak", "lost_seconds"})
      EXPECT_TRUE(row[key].is_number()) << row["name"] << " " << key;
    share += row["share"].get<double>();
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_FALSE(to_json(step_of(bench_recipe("dense"))).contains("load"));
  const std::string text = to_text(step);
  for (const char* part : {"tokens/s", "of the peak", "outside named operators", "layer 1"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(StepBench, ProcessorTimeIsForOneThread) {
  BenchOptions options{.steps = 2, .warm_up = 1, .memory_bandwidth = kBandwidth, .cpu_time = true};
  const StepBench step = measure_step(bench_recipe("topk"), options);
  EXPECT_EQ(step.clock, BenchClock::processor);
  EXPECT_GT(step.table.operator_seconds(), 0);
  EXPECT_LT(step.table.operator_seconds(), step.table.seconds);
  Recipe two = bench_recipe("topk");
  two.run.threads = 2;
  EXPECT_THROW(measure_step(two, options), Error);
  // The operators' clock is the wall clock again.
  EXPECT_EQ(step_of(bench_recipe("topk")).clock, BenchClock::wall);
}

TEST(SyntheticStep, IsAFunctionOfSeedAndStep) {
  Recipe recipe = bench_recipe("dense");
  const auto one = synthetic_step(recipe, 3), same = synthetic_step(recipe, 3);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].inputs, same[0].inputs);
  EXPECT_NE(one[0].inputs, one[1].inputs);
  EXPECT_NE(one[0].inputs, synthetic_step(recipe, 4)[0].inputs);
  recipe.train.seed = 99;
  EXPECT_NE(one[0].inputs, synthetic_step(recipe, 3)[0].inputs);
  ASSERT_EQ(one[0].inputs.size(), 32u);
  EXPECT_EQ(one[0].inputs[1], one[0].targets[0]);
  for (const auto id : one[0].inputs) EXPECT_TRUE(id >= 0 && id < 32);
}

}  // namespace
}  // namespace penstock::bench
