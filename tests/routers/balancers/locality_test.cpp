// The locality loss by hand: which experts are local, and the divergence from a local distribution.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/routers/parts.h"

namespace penstock {
namespace {

/// Two tokens whose softmax is (1/2, 1/4, 1/8, 1/8) and (1/4, 1/2, 1/8, 1/8): the mean is
/// (3/8, 3/8, 1/8, 1/8).
double loss(const RoutingContext& context, double elsewhere = 0.2) {
  const auto local = testing::balancer("locality", {.d_model = 4, .experts = 4},
                                       {{"coefficient", 2.0}, {"elsewhere", elsewhere}});
  const Scores scores{.logits = testing::matrix({{4, 2, 1, 1}, {2, 4, 1, 1}}).log()};
  return local->balance(scores, {.tokens = 2, .experts = 4}, context).loss.item<double>();
}

double divergence(const std::vector<double>& local) {
  const std::vector<double> mean = {0.375, 0.375, 0.125, 0.125};
  double sum = 0;
  for (std::size_t e = 0; e < 4; ++e) sum += mean[e] * std::log(mean[e] / local[e]);
  return 2 * sum;
}

TEST(Locality, HomeIsTheRanksOwnExpertWhereEveryRankHoldsAll) {
  EXPECT_NEAR(loss({}), divergence({0.8, 0.2 / 3, 0.2 / 3, 0.2 / 3}), 1e-12);
  EXPECT_NEAR(loss({.rank = 5}), divergence({0.2 / 3, 0.8, 0.2 / 3, 0.2 / 3}), 1e-12);
}

TEST(Locality, HomeIsWhatTheRankHolds) {
  RoutingContext context{.expert_rank = torch::tensor({0, 0, 1, 1}, at::kLong), .rank = 1};
  EXPECT_NEAR(loss(context), divergence({0.1, 0.1, 0.4, 0.4}), 1e-12);
  context.rank = 0;
  EXPECT_NEAR(loss(context, 0.5), divergence({0.25, 0.25, 0.25, 0.25}), 1e-12);
  context.rank = 7;  // this rank holds no expert, so none is local
  EXPECT_NEAR(loss(context), divergence({0.25, 0.25, 0.25, 0.25}), 1e-12);
}

TEST(Locality, CountsNothingUnlessAsked) {
  const auto local = testing::balancer("locality", {.d_model = 4, .experts = 4});
  const Scores scores{.logits = testing::matrix({{4, 2, 1, 1}})};
  EXPECT_EQ(local->balance(scores, {.tokens = 1, .experts = 4}, {}).loss.item<double>(), 0);
}

}  // namespace
}  // namespace penstock
