// The window of smoothed curves, by hand.
#include <gtest/gtest.h>

#include "penstock/study/statistics.h"

namespace penstock::study {
namespace {

TEST(Smoothed, ShortCurvesStay) {
  EXPECT_EQ(smoothed({}), std::vector<double>());
  EXPECT_EQ(smoothed({3, 1, 2}), (std::vector<double>{3, 1, 2}));
}

/// With 200 values the window reaches 2 values to each side. It shrinks to 0 at the ends.
TEST(Smoothed, AWindowOfAFiftieth) {
  std::vector<double> values(200, 0.0);
  values[0] = 5;
  values[100] = 10;
  const auto out = smoothed(values);
  EXPECT_EQ(out[0], 5);
  EXPECT_NEAR(out[1], 5.0 / 3, 1e-12);
  EXPECT_EQ(out[97], 0);
  EXPECT_EQ(out[98], 2);
  EXPECT_EQ(out[102], 2);
  EXPECT_EQ(out[103], 0);
}

}  // namespace
}  // namespace penstock::study
