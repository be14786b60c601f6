#include "penstock/base/median.h"

#include <gtest/gtest.h>

namespace {

TEST(Median, IsTheMiddleValueOfAnOddNumber) {
  EXPECT_EQ(penstock::median({5}), 5);
  EXPECT_EQ(penstock::median({9, 1, 4}), 4);
}

TEST(Median, IsTheMeanOfTheTwoMiddleValuesOfAnEvenNumber) {
  EXPECT_EQ(penstock::median({8, 2}), 5);
  EXPECT_EQ(penstock::median({100, 1, 3, 6}), 4.5);
}

TEST(Median, OfNothingIsZero) { EXPECT_EQ(penstock::median({}), 0); }

}  // namespace
