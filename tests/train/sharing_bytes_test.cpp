// What is sent in a step, counted.
#include "penstock/train/sharing_bytes.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(SharingBytes, CountWhatARankSends) {
  EXPECT_EQ(sum_traffic(8, 1, 0, 1000).nodes, 0);
  EXPECT_EQ(sum_traffic(8, 4, 0, 1000).nodes, 750);  // one node of two parts
  EXPECT_EQ(sum_traffic(8, 4, 1, 1000).sums, 750);
  EXPECT_EQ(sum_traffic(8, 4, 2, 1000).nodes, 1500);  // each part by itself
  EXPECT_EQ(sum_traffic(6, 2, 0, 1000).nodes, 1000);  // two nodes: parts 0-1 and 2
}

}  // namespace
}  // namespace penstock
