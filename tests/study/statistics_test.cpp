// Statistics against numbers worked out by hand.
#include "penstock/study/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "penstock/study/runs/stages.h"

namespace penstock::study {
namespace {

TEST(Spread, UsesTheSampleStandardDeviation) {
  // The mean is 5. The squares 9+1+1+1+0+0+4+16 sum to 32, so the variance is 32/7.
  const std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  const Spread s = spread(values);
  EXPECT_EQ(s.count, 8);
  EXPECT_DOUBLE_EQ(s.mean, 5);
  ASSERT_TRUE(s.sd);
  EXPECT_DOUBLE_EQ(*s.sd, std::sqrt(32.0 / 7));
}

TEST(Spread, HasNoDeviationBelowTwoValues) {
  EXPECT_EQ(spread({}).count, 0);
  const std::vector<double> one{3};
  EXPECT_EQ(spread(one).mean, 3);
  EXPECT_FALSE(spread(one).sd);
}

TEST(PairedDifference, SubtractsSeedBySeed) {
  // Differences -1, -2, -3: mean -2, sd 1, half width 4.303/√3.
  const std::vector<double> a{1, 2, 3}, b{2, 4, 6};
  const PairedDifference d = paired_difference(a, b);
  EXPECT_DOUBLE_EQ(d.difference.mean, -2);
  EXPECT_DOUBLE_EQ(*d.difference.sd, 1);
  EXPECT_NEAR(*d.half_width, 2.48434, 1e-4);
  EXPECT_EQ(d.lower, 3);
}

TEST(PairedDifference, OneSeedHasNoInterval) {
  const std::vector<double> a{1}, b{2};
  EXPECT_FALSE(paired_difference(a, b).half_width);
}

TEST(TQuantile, AgreesWithPrintedTables) {
  EXPECT_NEAR(t_quantile_975(1), 12.706, 1e-3);
  EXPECT_NEAR(t_quantile_975(9), 2.262, 1e-3);
  EXPECT_NEAR(t_quantile_975(24), 2.064, 1e-3);
  EXPECT_NEAR(t_quantile_975(60), 2.000, 1e-3);
}

// Sparsity: 0.5 for 100 steps, then 0.01 more each step up to 0.875, then constant.
std::vector<double> ramp(std::vector<double>& steps) {
  std::vector<double> sparsity;
  for (int step = 1; step <= 300; ++step) {
    steps.push_back(step);
    sparsity.push_back(std::min(0.875, 0.5 + 0.01 * std::max(0, step - 100)));
  }
  return sparsity;
}

TEST(Stages, FollowTheRule) {
  std::vector<double> steps;
  const auto sparsity = ramp(steps);
  const Stages stages = find_stages(steps, sparsity, 0.875);
  // A tenth of the way is 0.5375. On the ramp a 5-step mean is the value two steps earlier. It is
  // 0.5 + 0.01·(step − 102), which first reaches 0.5375 at step 106.
  ASSERT_TRUE(stages.sparsifying);
  EXPECT_EQ(*stages.sparsifying, 106);
  // The plateau begins at step 138. If m of the last 20 steps are on the ramp (m = 157 − step), the
  // mean is (0.005·m + 0.01·m(m−1)/2)/20 too low. That is (0.045 + 0.36)/20 = 0.02025 for m = 9 and
  // 0.016 for m = 8. So the run settles with m = 8, at step 149.
  ASSERT_TRUE(stages.settled);
  EXPECT_EQ(*stages.settled, 149);
}

TEST(Stages, AreAbsentWithoutARise) {
  std::vector<double> steps, sparsity;
  for (int step = 1; step <= 100; ++step) {
    steps.push_back(step);
    sparsity.push_back(0.5);
  }
  const Stages stages = find_stages(steps, sparsity, 0.875);
  EXPECT_FALSE(stages.sparsifying);
  EXPECT_FALSE(stages.settled);
  EXPECT_FALSE(find_stages({}, {}, 0.875).settled);
  // With k = 1 of 64, a model without any active expert is 0.0156 off the target.
  EXPECT_FALSE(find_stages(steps, std::vector<double>(100, 1.0), 1 - 1 / 64.).settled);
}

}  // namespace
}  // namespace penstock::study
