#include "penstock/eval/accuracy_interval.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(AccuracyIntervals, AreWilsons) {
  // n = 10 with 8 right: Wilson (1927), as R's prop.test(8, 10, correct = FALSE) prints it.
  EXPECT_NEAR(accuracy_interval(0.8, 10).low, 0.4901625, 1e-6);
  EXPECT_NEAR(accuracy_interval(0.8, 10).high, 0.9433178, 1e-6);
  // None right: 0 to z²/(n + z²).
  EXPECT_NEAR(accuracy_interval(0, 100).low, 0, 1e-12);
  EXPECT_NEAR(accuracy_interval(0, 100).high, 0.0369935, 1e-6);
  // All right: the mirror image.
  EXPECT_NEAR(accuracy_interval(1, 100).low, 0.9630065, 1e-6);
  EXPECT_NEAR(accuracy_interval(1, 100).high, 1, 1e-12);
}

}  // namespace
}  // namespace penstock
