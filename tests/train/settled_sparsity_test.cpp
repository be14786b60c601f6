// How far the sparsity may be from its target to count as settled and held, with many experts.
#include <gtest/gtest.h>

#include <vector>

#include "penstock/train/run_record.h"

namespace penstock {
namespace {

TEST(SettleTolerance, IsAShareOfTheActiveExpertsBeyondEightForEachOfThem) {
  EXPECT_EQ(settle_tolerance(1 - 1 / 4.), 0.02);
  EXPECT_EQ(settle_tolerance(1 - 1 / 8.), 0.02);
  EXPECT_EQ(settle_tolerance(1 - 2 / 16.), 0.02);
  EXPECT_NEAR(settle_tolerance(1 - 1 / 16.), 0.01, 1e-15);
  EXPECT_NEAR(settle_tolerance(1 - 1 / 64.), 0.0025, 1e-15);
}

TEST(SettledStep, OfOneExpertInSixtyFourNeedsThatExpert) {
  const double target = 1 - 1 / 64.;  // 0.984375
  EXPECT_EQ(settled_step(std::vector<double>(130, 1), target), -1);
  EXPECT_EQ(settled_step(std::vector<double>(130, target + 0.0026), target), -1);
  EXPECT_EQ(settled_step(std::vector<double>(130, target - 0.0026), target), -1);
  EXPECT_EQ(settled_step(std::vector<double>(130, target + 0.0024), target), 20);
  EXPECT_EQ(settled_step(std::vector<double>(130, target - 0.0024), target), 20);
}

TEST(HeldShare, OfOneExpertInSixtyFourEndsWithThatExpert) {
  const double target = 1 - 1 / 64.;
  std::vector<double> sparsity(40, target);
  sparsity.resize(60, 1);  // each raises the mean of 20 by 0.00078
  // Steps 20..60 give 41 means. Those of steps 20 to 43 have at most three dead steps.
  EXPECT_NEAR(held_share(sparsity, target, 0), 24 / 41., 1e-12);
}

}  // namespace
}  // namespace penstock
