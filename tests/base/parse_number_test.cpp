#include "penstock/base/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace penstock {
namespace {

TEST(ParseNumber, ReadsAWholeTextAsANumber) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<std::int64_t>("-7"), -7);
  EXPECT_EQ(parse_number<double>("2.5e-1"), 0.25);
}

TEST(ParseNumber, RefusesOtherTexts) {
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "x", "1x"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<double>("1e"), std::nullopt);
}

TEST(ParseNumber, RefusesNumbersThatTheTypeCannotHold) {
  EXPECT_EQ(parse_number<int>("2147483648"), std::nullopt);
  EXPECT_EQ(parse_number<std::int64_t>("2147483648"), 2147483648);
  EXPECT_EQ(parse_number<std::size_t>("-1"), std::nullopt);
}

}  // namespace
}  // namespace penstock
