// Ranks of matrices worked out by hand, and the growth of a span for a frozen and a generated
// router.
#include "penstock/analysis/rank.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/analysis/span_growth.h"

namespace penstock::analysis {
namespace {

TEST(Rank, IsThatOfHandWorkedMatrices) {
  const auto of = [](std::vector<double> values, std::int64_t rows) {
    return rank_of(torch::tensor(values, at::kDouble).view({rows, -1}));
  };
  EXPECT_EQ(of({1, 0, 0, 1}, 2).numerical, 2);
  EXPECT_NEAR(of({1, 0, 0, 1}, 2).effective, 2, 1e-12);
  // p = (3/4, 1/4) has the effective rank exp(3/4 ln 4/3 + 1/4 ln 4) = 4 / 3^(3/4).
  EXPECT_NEAR(of({0, 3, 1, 0}, 2).effective, 4 / std::pow(3, 0.75), 1e-12);
  EXPECT_EQ(of({1, 2, 3, 2, 4, 6}, 2).numerical, 1);
  EXPECT_NEAR(of({1, 2, 3, 2, 4, 6}, 2).effective, 1, 1e-6);
  EXPECT_EQ(of({0, 0, 0, 0}, 2).numerical, 0);
  EXPECT_EQ(of({0, 0, 0, 0}, 2).effective, 0);
  EXPECT_EQ(rank_of(at::zeros({0, 3})).numerical, 0);
}

TEST(Rank, LeavesOutWhatIsBelowThePrecision) {
  const at::Tensor matrix = torch::tensor({1.0, 0.0, 0.0, 1e-9}, at::kDouble).view({2, 2});
  EXPECT_EQ(rank_of(matrix).numerical, 2);
  EXPECT_EQ(rank_of(matrix, kSinglePrecision).numerical, 1);
}

TEST(SpanGrowth, AFrozenRouterStaysAndAGeneratedOneGrows) {
  torch::manual_seed(5);
  const std::int64_t experts = 4, width = 32, embedding = 8, k = 2;
  const at::Tensor tokens = at::randn({6, width}, at::kDouble);
  const at::Tensor network = at::randn({experts * width, embedding}, at::kDouble);
  const auto gating = [&](const at::Tensor& weight) {
    return Gating{.weight = weight, .form = GateForm::softmax_over_kept, .k = k};
  };
  const at::Tensor start = at::randn({embedding}, at::kDouble);
  std::vector<Gating> frozen, generated;
  for (int step = 0; step < 3; ++step) {
    frozen.push_back(gating(network.mv(start).view({experts, width})));
    const at::Tensor moved = start + 0.3 * step * at::randn({embedding}, at::kDouble);
    generated.push_back(gating(network.mv(moved).view({experts, width})));
  }
  const SpanGrowth still = span_growth(frozen, tokens), moving = span_growth(generated, tokens);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(still.router[i].numerical, experts);
    EXPECT_NEAR(still.router[i].effective, still.router[0].effective, 1e-9);
    EXPECT_NEAR(still.token_rank[i], k - 1, 1e-12);
    EXPECT_EQ(moving.router[i].numerical, experts * static_cast<std::int64_t>(i + 1));
  }
  EXPECT_NEAR(moving.token_rank[2], 3 * (k - 1), 1e-12);
  EXPECT_GT(moving.router[2].effective, still.router[2].effective + 1);
  EXPECT_GT(moving.token_effective[2], 1.05);
}

}  // namespace
}  // namespace penstock::analysis
