// The text of numbers, sizes and counts in messages.
#include "penstock/base/number_text.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(CountText, HasTheSingularForOneAloneAndGroupsDigits) {
  EXPECT_EQ(count_text(0, "step"), "0 steps");
  EXPECT_EQ(count_text(1, "step"), "1 step");
  EXPECT_EQ(count_text(2, "MoE layer"), "2 MoE layers");
  EXPECT_EQ(count_text(1200000, "token"), "1,200,000 tokens");
}

TEST(NumberText, HasAllDigitsOfWholeNumbers) {
  EXPECT_EQ(number_text(1048576), "1048576");
  EXPECT_EQ(number_text(0.25), "0.25");
}

TEST(SizeText, HasAUnitThatSuitsTheSize) {
  EXPECT_EQ(size_text(0), "0 KiB");
  EXPECT_EQ(size_text(100.0 * (1 << 10)), "100 KiB");
  EXPECT_EQ(size_text(1 << 20), "1 MiB");
  EXPECT_EQ(size_text(512.0 * (1 << 20)), "512 MiB");
  EXPECT_EQ(size_text(21.5 * (1 << 30)), "21.5 GiB");
}

}  // namespace
}  // namespace penstock
