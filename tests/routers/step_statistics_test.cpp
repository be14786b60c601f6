// Statistics of a step: experts per token of each layer, and sums over ranks.
#include "penstock/routers/step_statistics.h"

#include <gtest/gtest.h>

#include "tests/routers/counted.h"

namespace penstock::testing {
namespace {

TEST(StepStatistics, CountsExpertsPerTokenOfEachLayer) {
  const StepStatistics step = counted({loads(25, 25), loads(10, 30), {}});
  EXPECT_EQ(step.active(0), 2.0);
  EXPECT_EQ(step.active(1), 1.0);
  EXPECT_EQ(step.active(2), 0);  // this layer's plans merge experts
  EXPECT_EQ(step.active(7), 0);
  EXPECT_EQ(step.tokens, (std::vector<std::int64_t>{100, 100, 0}));
  EXPECT_DOUBLE_EQ(step.sparsity, 1 - 300 / 1600.0);
}

/// A layer in which no expert is active keeps its counts of 0 when ranks sum.
TEST(StepStatistics, ALayerWithoutAssignmentsOutlivesSums) {
  StepCounts counts;
  counts.add(0, loads(25, 25), 100);
  counts.add(1, loads(0, 0), 100);
  counts.sum_with([](const at::Tensor& numbers) { numbers.mul_(2); }, kTwoLayers);
  const StepStatistics step = counts.take();
  EXPECT_EQ(step.expert_tokens[1], loads(0, 0));
  EXPECT_EQ(step.tokens, (std::vector<std::int64_t>{200, 200}));
  EXPECT_EQ(step.active(0), 2.0);
  EXPECT_DOUBLE_EQ(step.sparsity, 1 - 400 / 3200.0);
}

}  // namespace
}  // namespace penstock::testing
