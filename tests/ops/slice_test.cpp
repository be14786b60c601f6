// Slices of tensors, taken and put back by ranges of each axis, against numbers worked by hand.
#include "penstock/ops/slice.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace penstock::slice_test {
namespace {

TEST(Slice, TakesRangesOfEachAxis) {
  const at::Tensor whole = torch::arange(24, torch::kDouble).view({4, 6});
  const Slice slice{.shape = {4, 6}, .ranges = {{{0, 1}, {2, 4}}, {{1, 2}, {4, 6}}}};
  EXPECT_EQ(slice.part_shape(), (std::vector<std::int64_t>{3, 3}));
  EXPECT_FALSE(slice.whole());
  const at::Tensor expected =
      torch::tensor({1., 4., 5., 13., 16., 17., 19., 22., 23.}, torch::kDouble).view({3, 3});
  EXPECT_TRUE(torch::equal(take(whole, slice), expected));
}

TEST(Slice, PutsWhatItTook) {
  const Slice slice{.shape = {4, 6}, .ranges = {{{0, 1}, {2, 4}}, {{1, 2}, {4, 6}}}};
  const at::Tensor whole = torch::zeros({4, 6}, torch::kDouble),
                   part = torch::arange(1, 10, torch::kDouble).view({3, 3});
  put(whole, slice, part);
  EXPECT_TRUE(torch::equal(take(whole, slice), part));
  EXPECT_EQ(whole.sum().item<double>(), 45);
  EXPECT_EQ(whole[1].abs().sum().item<double>(), 0);
}

TEST(Slice, OfAllIsTheTensor) {
  const at::Tensor whole = torch::arange(6, torch::kDouble).view({1, 2, 3});
  const Slice slice = Slice::all({1, 2, 3});
  EXPECT_TRUE(slice.whole());
  EXPECT_EQ(take(whole, slice).data_ptr(), whole.data_ptr());
  EXPECT_TRUE(Slice::all({}).whole());
}

TEST(Slice, EqualParts) {
  EXPECT_EQ(equal_part(12, 1, 3), (IndexRange{4, 8}));
  EXPECT_EQ(equal_part(5, 0, 1), (IndexRange{0, 5}));
}

}  // namespace
}  // namespace penstock::slice_test
