// What is not a number is printed without the sign that a division of zeros gives it.
#include "penstock/base/plain_nan.h"

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

TEST(PlainNan, IsPrintedWithoutASignAndNumbersAreLeftAlone) {
  EXPECT_EQ(printed(-std::nan("")), "-nan");
  EXPECT_EQ(printed(plain_nan(-std::nan(""))), "nan");
  EXPECT_EQ(printed(plain_nan(std::nan(""))), "nan");
  EXPECT_EQ(printed(plain_nan(-1.5)), "-1.50");
  EXPECT_EQ(printed(plain_nan(-INFINITY)), "-inf");
}

}  // namespace
}  // namespace penstock
