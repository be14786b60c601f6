// Random draws against SplitMix64's published outputs and numbers of the same formulas in Python.
// Orders of texts and initial weights depend on these bits, so a seed must go on giving them.
#include "penstock/base/random.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace penstock {
namespace {

TEST(Random, MixesAsSplitMix64Does) {
  // SplitMix64's first outputs for the seed 1234567: its state grows by the golden gamma.
  constexpr std::uint64_t gamma = 0x9e3779b97f4a7c15ULL, seed = 1234567;
  EXPECT_EQ(mix64(seed), 6457827717110365317ULL);
  EXPECT_EQ(mix64(seed + gamma), 3203168211198807973ULL);
  EXPECT_EQ(mix64(seed + 2 * gamma), 9817491932198370423ULL);
}

TEST(Random, ADrawIsAFunctionOfSeedStreamAndIndex) {
  // mix64(mix64(mix64(seed) ^ stream) + index) in Python's whole numbers.
  EXPECT_EQ(random_bits(1, 2, 3), 7702586659592502839ULL);
  EXPECT_EQ(random_bits(2, 1, 3), 16641254332619891081ULL);
  EXPECT_EQ(random_bits(1, 2, 4), 14056738641343212577ULL);
}

TEST(Random, ADrawBelowABoundIsItsShareOfAllBits) {
  EXPECT_EQ(random_below(0, 10), 0U);
  EXPECT_EQ(random_below(std::uint64_t{1} << 63, 10), 5U);
  EXPECT_EQ(random_below(UINT64_MAX, 10), 9U);
  EXPECT_EQ(random_below(UINT64_MAX, 1), 0U);
}

TEST(Random, ShufflesFromTheEnd) {
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);
  shuffle(items, 7, 5);
  // for i in 10 .. 2: exchange items i − 1 and (bits(7, 5, i) · i) >> 64, in Python.
  EXPECT_EQ(items, (std::vector<int>{1, 9, 2, 3, 6, 5, 0, 4, 8, 7}));
}

}  // namespace
}  // namespace penstock
