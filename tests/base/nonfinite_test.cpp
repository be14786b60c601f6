// The words and the printed form of values that are not finite.
#include "penstock/base/nonfinite.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace penstock {
namespace {

std::string printed(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

TEST(Nonfinite, IsSaidInWords) {
  EXPECT_EQ(nonfinite_text(-std::nan("")), "not a number");
  EXPECT_EQ(nonfinite_text(INFINITY), "infinite");
  EXPECT_EQ(nonfinite_text(-INFINITY), "-infinite");
}

TEST(PlainNan, IsPrintedWithoutASignAndNumbersAreLeftAlone) {
  EXPECT_EQ(printed(-std::nan("")), "-nan");
  EXPECT_EQ(printed(plain_nan(-std::nan(""))), "nan");
  EXPECT_EQ(printed(plain_nan(std::nan(""))), "nan");
  EXPECT_EQ(printed(plain_nan(-1.5)), "-1.50");
  EXPECT_EQ(printed(plain_nan(-INFINITY)), "-inf");
}

}  // namespace
}  // namespace penstock
