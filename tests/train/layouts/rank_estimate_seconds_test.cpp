// The estimates of how long a rank's step takes, compared with counts by hand.
#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/train/layouts/rank_estimate.h"
#include "penstock/train/ranks/parameter_units.h"
#include "tests/train/layouts/counted_recipe.h"
#include "tests/train/layouts/parameter_sizes.h"

namespace penstock {
namespace {

using testing::counted_recipe, testing::parameter_sizes, testing::sent;

/// An expert has three matrices of d_model × d_ffn. A multiply-add costs 6 FLOPs, forward and
/// backward together.
TEST(RankEstimateSeconds, WaitsForTheRankWithTheMostRows) {
  const Recipe r = counted_recipe();
  const dist::Layout layout{.data = 2, .expert = 2};
  const MachineSpeeds even{.flops = 1e9}, uneven{.flops = 1e9, .rank_load = 1.5};
  const double parts = static_cast<double>(r.train.batch_sequences) / 2;
  const double multiply_adds = 3.0 * static_cast<double>(r.model.d_model * r.model.d_ffn);
  const double tokens = static_cast<double>(r.train.sequence_length);
  const RankEstimate at_even = estimate_rank(r, layout, even),
                     at_uneven = estimate_rank(r, layout, uneven);
  EXPECT_NEAR(
      at_uneven.compute_seconds - at_even.compute_seconds,
      0.5 * parts * 6 * tokens * static_cast<double>(r.model.moe_layers()) * multiply_adds / 1e9,
      1e-12);
  EXPECT_NEAR(static_cast<double>(sent(at_uneven)["tokens"]),
              1.5 * static_cast<double>(sent(at_even)["tokens"]), 1);
  // Without divided experts, a rank computes the experts of its own tokens.
  EXPECT_EQ(estimate_rank(r, {.data = 2}, uneven).step_seconds,
            estimate_rank(r, {.data = 2}, even).step_seconds);
}

TEST(RankEstimateSeconds, HidesTokensBehindASharedExpert) {
  const dist::Layout layout{.data = 2, .expert = 2};
  const MachineSpeeds speeds{.flops = 1e9, .bandwidth = 1e9, .latency = 0};
  const auto step = [&](const std::string& overlap, std::int64_t width) {
    const Recipe r = counted_recipe(
        {concat("parallel.overlap=", overlap), concat("model.moe.shared_width=", width)});
    const RankEstimate found = estimate_rank(r, layout, speeds);
    return found.compute_seconds + found.exchange_seconds - found.step_seconds;
  };
  EXPECT_EQ(step("false", 16), 0);
  // The gradients are hidden with and without a shared expert.
  const Recipe r = counted_recipe();
  const double tokens =
      static_cast<double>(sent(estimate_rank(r, layout, speeds))["tokens"]) / speeds.bandwidth;
  EXPECT_GT(step("true", 16), step("true", 0) + tokens * 0.99);
}

TEST(RankEstimateSeconds, CountsAnOuterStepOnceInItsLocalSteps) {
  const MachineSpeeds speeds{.flops = 1e9, .bandwidth = 1e6, .latency = 1e-3};
  const dist::Layout two{.data = 2};
  const auto with = [&](const std::string& key) {
    return estimate_rank(counted_recipe({"parallel.overlap=false", key}), two, speeds);
  };
  const RankEstimate every = with("parallel.local_steps=1"), ten = with("parallel.local_steps=10");
  auto before = sent(every), after = sent(ten);
  EXPECT_EQ(after["gradients"], before["gradients"] / 10);
  EXPECT_EQ(after["weights"], before["summed_gradients"] / 10);
  EXPECT_EQ(after.size(), 3U);
  // Ranks exchange their records in each step.
  EXPECT_NEAR(ten.exchange_seconds - ten.record_seconds,
              (every.exchange_seconds - every.record_seconds) / 10, 1e-6);
  EXPECT_NEAR(ten.step_seconds, ten.compute_seconds + ten.exchange_seconds, 1e-12);
  EXPECT_EQ(ten.compute_seconds, every.compute_seconds);
  // The outer optimizer's weights and momentum are divided over two ranks. They add about one whole
  // moment.
  const double moments = static_cast<double>(every.memory.optimizer_bytes);
  EXPECT_GE(static_cast<double>(ten.memory.optimizer_bytes), 1.5 * moments);
  EXPECT_LT(static_cast<double>(ten.memory.optimizer_bytes), 1.75 * moments);
  EXPECT_EQ(ten.memory.parameter_bytes, every.memory.parameter_bytes);
  // No exchange is hidden behind the backward pass.
  const RankEstimate beside =
      estimate_rank(counted_recipe({"parallel.local_steps=10"}), two, speeds);
  EXPECT_EQ(beside.step_seconds, ten.step_seconds);
}

TEST(RankEstimateSeconds, AddsComputingBubbleAndExchange) {
  const Recipe r = counted_recipe({"parallel.overlap=false"});
  const MachineSpeeds speeds{.flops = 1e9, .bandwidth = 1e6, .latency = 0};
  const RankEstimate alone = estimate_rank(r, {}, speeds);
  const RankEstimate staged = estimate_rank(r, {.pipeline = 2}, speeds);
  const double parts = static_cast<double>(r.train.batch_sequences);
  // The second of two layers is in the stage of the head. This stage is the slowest.
  const double head = 6.0 * static_cast<double>(r.train.sequence_length * r.model.d_model * 256) *
                      parts / (alone.compute_seconds * speeds.flops);
  EXPECT_NEAR(staged.compute_seconds,
              alone.compute_seconds * ((1 - head) / 2 + head) * (1 + 1 / parts), 1e-12);
  EXPECT_NEAR(staged.efficiency(), alone.compute_seconds / 2 / staged.step_seconds, 1e-12);
  std::int64_t bytes = 0;
  for (const auto& [kind, number] : staged.bytes_per_step) bytes += number;
  EXPECT_NEAR(staged.exchange_seconds, static_cast<double>(bytes) / 1e6, 1e-9);
  EXPECT_NEAR(staged.step_seconds, staged.compute_seconds + staged.exchange_seconds, 1e-12);
}

/// With two ranks on each machine, one neighbour is on the same machine.
TEST(RankEstimateSeconds, SendsFasterWithinAMachine) {
  const Recipe r = counted_recipe({"parallel.overlap=false"});
  const MachineSpeeds near{.bandwidth = 1e6, .latency = 0, .node_ranks = 2, .node_bandwidth = 1e8};
  const MachineSpeeds far{.bandwidth = 1e6, .latency = 0};
  const auto seconds = [&](const dist::Layout& layout, const MachineSpeeds& speeds) {
    return estimate_rank(r, layout, speeds).exchange_seconds;
  };
  EXPECT_NEAR(seconds({.tensor = 2}, near), seconds({.tensor = 2}, far) / 100, 1e-9);
  EXPECT_NEAR(seconds({.pipeline = 2}, near), seconds({.pipeline = 2}, far) / 100, 1e-9);
  // One of the three other ranks is on the same machine.
  EXPECT_NEAR(seconds({.data = 4}, near), seconds({.data = 4}, far) * (2 + 0.01) / 3, 1e-9);
  // Stages are two ranks apart, so all their messages go to another machine.
  const dist::Layout both{.tensor = 2, .pipeline = 2};
  auto bytes = sent(estimate_rank(r, both));
  EXPECT_NEAR(seconds(both, near),
              static_cast<double>(bytes["stages"]) / 1e6 +
                  static_cast<double>(bytes["tensor"]) / 1e8 +
                  static_cast<double>(bytes["records"]) * (2 / 1e6 + 1 / 1e8) / 3,
              1e-9);
}

/// AdamW reads weight, gradient and moments, and writes weight and moments. The norm reads the
/// gradient. Together these are 32 bytes a number. Adding a gradient to another moves 12 bytes a
/// number.
TEST(RankEstimateSeconds, CountsTheUpdateAsWorkOnMemory) {
  const MachineSpeeds speeds{.memory_bandwidth = 1e9};
  const Recipe r = counted_recipe();
  const RankEstimate one = estimate_rank(r, {}, speeds);
  const auto numbers = static_cast<double>(one.memory.parameter_bytes) / 4;
  const auto parts = static_cast<double>(r.train.batch_sequences);
  EXPECT_NEAR(one.update_seconds, numbers * (32 + 12 * (parts - 1)) / 1e9, 1e-12);
  EXPECT_NEAR(one.step_seconds, one.compute_seconds + one.update_seconds, 1e-12);
  EXPECT_NEAR(one.communication(), 0, 1e-12);
  const RankEstimate divided =
      estimate_rank(counted_recipe({"parallel.zero=1"}), {.data = 2}, speeds);
  EXPECT_NEAR(
      divided.update_seconds,
      (4.0 * static_cast<double>(divided.memory.optimizer_bytes) + 12 * numbers * (parts / 2 - 1)) /
          1e9,
      1e-12);
  EXPECT_EQ(estimate_rank(r, {}).update_seconds, 0);
}

/// For a byte of gradients, packing and adding move 5 bytes of memory. For a byte of sums,
/// receiving moves 2 bytes, and a rank's own sums move 4 bytes once for all other ranks.
TEST(RankEstimateSeconds, CountsWhatTheExchangeDoesToMemory) {
  const Recipe r = counted_recipe({"parallel.overlap=false"});
  const MachineSpeeds network{.bandwidth = 1e6, .latency = 0};
  MachineSpeeds both = network;
  both.memory_bandwidth = 1e7;
  const auto more = [&](const dist::Layout& layout) {
    return estimate_rank(r, layout, both).exchange_seconds -
           estimate_rank(r, layout, network).exchange_seconds;
  };
  for (const int ranks : {2, 4}) {
    auto bytes = sent(estimate_rank(r, {.data = ranks}));
    EXPECT_NEAR(more({.data = ranks}),
                (5.0 * static_cast<double>(bytes["gradients"]) +
                 (2 + 4.0 / (ranks - 1)) * static_cast<double>(bytes["summed_gradients"])) /
                    1e7,
                1e-9);
  }
}

/// The first gradients are ready when the backward pass has left the second of two layers. The
/// gradients of the first layer and of the embedding are exchanged after the pass.
TEST(RankEstimateSeconds, HidesNeitherTheFirstLayersTimeNorTheLastExchange) {
  const Recipe r = counted_recipe();
  const dist::Layout two{.data = 2};
  const auto hidden = [&](const MachineSpeeds& speeds) {
    const RankEstimate rank = estimate_rank(r, two, speeds);
    return rank.compute_seconds + rank.exchange_seconds - rank.step_seconds;
  };
  double all = 0, in_layers = 0;
  for (const ParameterSize& size : parameter_sizes(r.model.resolved())) {
    const auto numbers = static_cast<double>(size.elements);
    all += numbers;
    if (parameter_units({size}, {}, 1, 1).front().layer >= 0) in_layers += numbers;
  }
  const MachineSpeeds slow{.flops = 1e6, .bandwidth = 1e9, .latency = 0};
  const RankEstimate at_slow = estimate_rank(r, two, slow);
  EXPECT_NEAR(hidden(slow),
              (at_slow.exchange_seconds - at_slow.record_seconds) * in_layers / 2 / all, 1e-9);
  const MachineSpeeds fast{.flops = 1e12, .bandwidth = 1e3, .latency = 0};
  const double parts = static_cast<double>(r.train.batch_sequences) / 2;
  const double backward = 2.0 / 3 * estimate_rank(r, two, fast).compute_seconds / parts;
  EXPECT_NEAR(hidden(fast), backward / 2, 1e-9);
}

/// A byte that is sent beside the computation costs time of a core. A byte that the rank waits for
/// does not.
TEST(RankEstimateSeconds, ChargesTheProcessorForWhatIsHidden) {
  const dist::Layout two{.data = 2};
  MachineSpeeds speeds{.flops = 1e6, .bandwidth = 1e9, .latency = 0};
  const RankEstimate free = estimate_rank(counted_recipe(), two, speeds);
  const double hidden = free.compute_seconds + free.exchange_seconds - free.step_seconds;
  ASSERT_GT(hidden, 0);
  speeds.exchange_cost = 0.25e-9;  // a quarter of the network's time
  EXPECT_NEAR(estimate_rank(counted_recipe(), two, speeds).step_seconds - free.step_seconds,
              hidden / 4, 1e-9);
  const Recipe waits = counted_recipe({"parallel.overlap=false"});
  const double waited = estimate_rank(waits, two, speeds).step_seconds;
  speeds.exchange_cost = 0;
  EXPECT_EQ(estimate_rank(waits, two, speeds).step_seconds, waited);
}

}  // namespace
}  // namespace penstock
