// What metrics.jsonl records of the ranks of a step.
#include "penstock/train/layouts/rank_spread.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(RankSpread, NamesTheRankWithTheMost) {
  const auto three = rank_spread({1, 4, 1});
  EXPECT_EQ(three.at("mean"), 2);
  EXPECT_EQ(three.at("max"), 4);
  EXPECT_EQ(three.at("rank"), 1);
  EXPECT_EQ(three.at("by_rank").size(), 3U);
}

TEST(RankSpread, StaysSmallForManyRanks) {
  std::vector<double> seconds(kListedRanks + 1, 1.0);
  seconds.back() = 2;
  const auto many = rank_spread(seconds);
  EXPECT_FALSE(many.contains("by_rank"));
  EXPECT_EQ(many.at("rank"), kListedRanks);
}

TEST(RankSpread, LoadsAreOfConsecutiveExperts) {
  // Two layers of four experts on two ranks. The first rank has 3 + 1 and 1 + 1 of the 8
  // assignments.
  const auto load = expert_rank_load({{3, 1, 0, 0}, {1, 1, 1, 1}}, 2);
  EXPECT_EQ(load.at("by_rank"), (std::vector<double>{1.5, 0.5}));
  EXPECT_EQ(load.at("mean"), 1);
  EXPECT_EQ(load.at("max"), 1.5);
  EXPECT_EQ(load.at("rank"), 0);
  EXPECT_TRUE(expert_rank_load({{0, 0}}, 2).is_null());
}

/// Each rank has half of all assignments, but each layer waits for a rank with 3 of its 4.
TEST(RankSpread, EachLayerWaitsForItsBusiestRank) {
  const auto load = expert_rank_load({{2, 1, 1, 0}, {0, 1, 2, 1}}, 2);
  EXPECT_EQ(load.at("by_rank"), (std::vector<double>{1, 1}));
  EXPECT_EQ(load.at("max"), 1.5);
}

}  // namespace
}  // namespace penstock
