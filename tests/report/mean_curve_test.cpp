#include "penstock/report/mean_curve.h"

#include <gtest/gtest.h>

namespace penstock::study {
namespace {

TEST(MeanCurve, InterpolatesUpToTheShortest) {
  const Curve a{{0, 10, 20, 30}, {0, 10, 20, 30}}, b{{0, 20}, {2, 42}};
  const Curve* both[] = {&a, &b};
  const report::MeanCurve mean = report::mean_curve(both, false);
  EXPECT_EQ(mean.steps, (std::vector<double>{0, 10, 20}));
  EXPECT_EQ(mean.mean, (std::vector<double>{1, 16, 31}));
  EXPECT_EQ(mean.low, (std::vector<double>{0, 10, 20}));
  EXPECT_EQ(mean.high, (std::vector<double>{2, 22, 42}));
}

TEST(MeanCurve, AveragesLogarithms) {
  const Curve a{{1}, {1e-8}}, b{{1}, {1e-4}};
  const Curve* both[] = {&a, &b};
  EXPECT_NEAR(report::mean_curve(both, true).mean[0], 1e-6, 1e-15);
}

}  // namespace
}  // namespace penstock::study
