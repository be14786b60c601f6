// The shift that holds a stated number of active experts.
#include "penstock/bench/active_experts.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

namespace penstock::bench {
namespace {

std::int64_t positive(const at::Tensor& logits, double target) {
  return (logits + shift_for(logits, target)).gt(0).sum().item<std::int64_t>();
}

TEST(ShiftFor, LeavesTheAskedNumberPositive) {
  torch::manual_seed(5);
  for (const std::int64_t tokens : {1, 7, 500}) {
    const at::Tensor logits = torch::randn({tokens, 12}) * 0.3 - 2;
    for (const double target : {0.0, 0.5, 1.0, 3.3, 11.9, 12.0, 99.0})
      EXPECT_EQ(positive(logits, target),
                std::clamp<std::int64_t>(std::llround(target * static_cast<double>(tokens)), 0,
                                         12 * tokens))
          << tokens << " tokens, target " << target;
  }
  EXPECT_EQ(shift_for(torch::zeros({0, 4}), 1), 0);
}

TEST(ActiveExperts, RepeatsTheShiftsOfEachCallInOrder) {
  ActiveExperts active(1);
  const at::Tensor first = torch::tensor({{3.0f, 1.0f}}), second = torch::tensor({{-4.0f, -8.0f}});
  const auto find = active.finding();
  EXPECT_DOUBLE_EQ(find(first), -2);
  EXPECT_DOUBLE_EQ(find(second), 6);
  // A context that carries the function is copied by each pass of a step.
  const auto repeat = active.repeating();
  auto copy = repeat;
  EXPECT_DOUBLE_EQ(repeat(second), -2);
  EXPECT_DOUBLE_EQ(copy(first), 6);
}

}  // namespace
}  // namespace penstock::bench
