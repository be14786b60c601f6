// Sums over ranks of tensors of which each rank has a share.
#include "penstock/train/ranks/tensor_exchange.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/dist/transport.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

TEST(SumTensors, AddsInTheOrderOfTheRanks) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  // In f32 the three orders of these sums differ; seven elements are no multiple of three.
  const float values[] = {1e8f, -1e8f, 0.25f};
  testing::on_ranks(3, [&](const dist::ProcessGroup& group) {
    const float mine = values[group.rank()];
    const at::Tensor matrix = at::full({2, 3}, mine), vector = at::full({1}, 2 * mine);
    sum_tensors(group, {matrix, vector});
    EXPECT_TRUE(torch::equal(matrix, at::full({2, 3}, (values[0] + values[1]) + values[2])));
    EXPECT_TRUE(torch::equal(vector, at::full({1}, 0.5f)));
    EXPECT_NE(values[0] + (values[1] + values[2]), 0.25f);
  });
}

TEST(SumTensors, LeavesThoseOfOneProcessAlone) {
  const at::Tensor one = at::full({2}, 3.0);
  sum_tensors({}, {one});
  sum_tensors({}, {});
  EXPECT_TRUE(torch::equal(one, at::full({2}, 3.0)));
}

}  // namespace
}  // namespace penstock
