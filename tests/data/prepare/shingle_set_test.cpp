#include "penstock/data/prepare/shingle_set.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ShingleSet, HoldsWhatWasInsertedAndNothingElse) {
  for (const std::uint64_t most : {0u, 1u, 2u, 1000u, 200000u}) {
    ShingleSet set(most);
    for (std::uint64_t i = 0; i < most; ++i) set.insert(mix64(i));
    for (std::uint64_t i = 0; i < most; ++i) set.insert(mix64(i));  // insert again
    for (std::uint64_t i = 0; i < most; ++i) ASSERT_TRUE(set.contains(mix64(i))) << i;
    // In about one of 5,000 sets of this size, one of 200,000 other hashes would be found.
    for (std::uint64_t i = most; i < most + 200000; ++i) ASSERT_FALSE(set.contains(mix64(i))) << i;
  }
}

TEST(ShingleSet, HashesWhoseKeptHalfIsZeroAreHeldToo) {
  ShingleSet set(4);
  const std::uint64_t zero_below = std::uint64_t{5} << 62;
  EXPECT_FALSE(set.contains(zero_below));
  set.insert(zero_below);
  EXPECT_TRUE(set.contains(zero_below));
  EXPECT_FALSE(set.contains(zero_below | 2));
}

}  // namespace
}  // namespace penstock
