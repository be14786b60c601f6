// What all ranks tell each other in each step, as the estimate counts it, compared with counts by
// hand.
#include <gtest/gtest.h>

#include "penstock/train/layouts/rank_estimate.h"
#include "penstock/train/layouts/rank_traffic.h"
#include "tests/train/layouts/counted_recipe.h"

namespace penstock {
namespace {

using testing::counted_recipe, testing::sent;

/// A step has eight parts, and the model two layers of four experts. A part's record has
/// 180 + 2 · (150 + 3 · 4) = 504 bytes. A rank's record has 40 more, and a quarter is reserved.
TEST(RankRecords, GoFromEachRankToAllOthers) {
  const auto bytes = [](const dist::Layout& layout, const std::string& key = "train.seed=1") {
    return sent(estimate_rank(counted_recipe({key}), layout))["records"];
  };
  EXPECT_EQ(bytes({}), 0);
  // Two parts: 1048 bytes and 262 reserved, behind a length. An order goes to two others, 8 bytes
  // each. Each rank has all gradients and so the norm.
  EXPECT_EQ(bytes({.data = 4}), 3 * (8 + 1310) + 2 * 8);
  // All eight parts: 4072 + 1018. Each rank sends its share of the norm, 8 bytes.
  EXPECT_EQ(bytes({.tensor = 2}), (8 + 5090) + 8 + 8);
  // Eight parts of one layer: 40 + 8 · 342 = 2776, and 694.
  EXPECT_EQ(bytes({.pipeline = 2}), (8 + 3470) + 8 + 8);
  // Four parts: 2056 + 514. No rank has the gradients of all experts.
  EXPECT_EQ(bytes({.data = 2, .expert = 2}), (8 + 2570) + 8 + 8);
  // Ranks that train apart tell each other their norms.
  EXPECT_EQ(bytes({.data = 4}, "parallel.local_steps=10"), 3 * (8 + 1310) + 2 * 8 + 3 * 8);
}

/// With zero a rank has the sums of squares of its pieces, which hold 16,384 numbers each. A moment
/// has four bytes a number, and there are two.
TEST(RankRecords, HaveTheNormsPiecesWithZero) {
  const auto of = [](const std::string& zero) {
    return estimate_rank(counted_recipe({"model.d_ffn=512", "parallel.zero=" + zero}), {.data = 2});
  };
  const RankEstimate zero = of("1");
  const std::int64_t numbers = zero.memory.optimizer_bytes / 8;
  ASSERT_GT(numbers, 16384);
  EXPECT_EQ(sent(zero)["records"] - sent(of("0"))["records"], 8 * ((numbers + 16383) / 16384));
}

/// The ranks that divide the weights, and those that divide the experts' weights, meet after the
/// update.
TEST(RankRecords, HaveABarrierWhereRanksShareTheWeights) {
  const auto more = [](const dist::Layout& layout) {
    const Recipe recipe = counted_recipe({"parallel.zero=1"});
    const auto on = [&](int node) {
      return sent(estimate_rank(recipe, layout, {.node_ranks = node, .shared_memory = true}));
    };
    return on(layout.ranks())["records"] - on(1)["records"];
  };
  EXPECT_EQ(more({.data = 2}), 8);
  EXPECT_EQ(more({.data = 4, .expert = 2}), (3 + 1) * 8);
}

TEST(RankRecords, TakeAMessageForEachOtherRank) {
  const MachineSpeeds speeds{.bandwidth = 1e6, .latency = 1e-3};
  const Recipe recipe = counted_recipe({"parallel.overlap=false"});
  const RankEstimate found = estimate_rank(recipe, {.data = 4}, speeds);
  EXPECT_NEAR(found.record_seconds, 3970 / 1e6 + (3 + 2) * 1e-3, 1e-12);
  auto bytes = sent(found);
  // Three units of gradients, whose sums come back: 2 · 3 · 3 messages.
  EXPECT_NEAR(found.exchange_seconds,
              static_cast<double>(bytes["gradients"] + bytes["summed_gradients"]) / 1e6 + 18e-3 +
                  found.record_seconds,
              2e-6);
  EXPECT_NEAR(found.step_seconds, found.compute_seconds + found.exchange_seconds, 1e-12);
  // 4,096 ranks, eight on each machine: a record and a number of the norm
  // to 4,095 others, an order to twelve.
  const rank_traffic::Sent many =
      rank_traffic::of_records(1000, 1, 0, {.data = 512, .tensor = 8}, {.node_ranks = 8});
  EXPECT_EQ(many.messages, 2 * 4095 + 12);
  EXPECT_EQ(many.bytes, 4095 * 1008 + 4095 * 8 + 12 * 8);
  EXPECT_NEAR(many.elsewhere, many.bytes * 4088 / 4095, 1e-6);
}

}  // namespace
}  // namespace penstock
