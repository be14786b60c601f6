// Selectors against the constants of formulas.py, which knows only the formulas. relu_test.cpp
// tests ReLU; ../gating_test.cpp tests selectors with a capacity and THOR's draws.
#include <gtest/gtest.h>

#include <limits>

#include "penstock/base/error.h"
#include "tests/routers/four_tokens.h"

namespace penstock::testing {
namespace {

TEST(TopK, SoftmaxBeforeKeepsProbabilities) {
  expect_matrix(dense_weights(plan_for(*selector("topk", kTwoOfFour), four_logits())),
                {{0.42948105406904, 0.260493427058572, 0, 0},
                 {0, 0.268643122468705, 0.442917630241454, 0},
                 {0, 0, 0.39053397262892, 0.319742173513011},
                 {0.789136836856084, 0, 0.106798057328363, 0}});
}

TEST(TopK, SoftmaxAfterAndRenormalisedAgree) {
  const std::vector<std::vector<double>> expected = {{0.622459331201855, 0.377540668798145, 0, 0},
                                                     {0, 0.377540668798145, 0.622459331201855, 0},
                                                     {0, 0, 0.549833997312478, 0.450166002687522},
                                                     {0.880797077977882, 0, 0.119202922022118, 0}};
  for (const Options& options :
       {Options{{"softmax", std::string("after")}}, Options{{"renormalise", true}}})
    expect_matrix(dense_weights(plan_for(*selector("topk", kTwoOfFour, options), four_logits())),
                  expected);
}

TEST(TopK, AfterAtOneExpertHasWeightOneAndNoGradient) {
  const at::Tensor z = four_logits().requires_grad_();
  const Plan plan = plan_for(*selector("topk", kOneOfFour, {{"softmax", std::string("after")}}), z);
  EXPECT_TRUE(plan.weight.detach().equal(torch::ones({4}, at::kDouble)));
  plan.weight.sum().backward();
  EXPECT_EQ(z.grad().abs().max().item<double>(), 0);
}

TEST(TopK, TiesGoToTheLowerExpert) {
  const Plan plan =
      plan_for(*selector("topk", kTwoOfFour), matrix({{1, 1, 1, 1}, {0, 2, 0, 0}, {-1, 3, 3, 3}}));
  const at::Tensor expected =
      torch::tensor({1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0}).view({3, 4}).to(at::kBool);
  EXPECT_TRUE(dense_mask(plan).equal(expected));
}

TEST(TopK, NumbersWinOverNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  const Plan plan =
      plan_for(*selector("topk", kTwoOfFour), matrix({{nan, -inf, nan, 1}, {nan, nan, nan, nan}}));
  const at::Tensor expected = torch::tensor({0, 1, 0, 1, 1, 1, 0, 0}).view({2, 4}).to(at::kBool);
  EXPECT_TRUE(dense_mask(plan).equal(expected));
}

TEST(TopK, RefusesAnImpossibleK) {
  for (const double k : {0.0, 1.5, 5.0})
    EXPECT_THROW(selector("topk", {.d_model = 4, .experts = 4, .k = k}), Error) << k;
}

TEST(ExpertChoice, EveryExpertTakesItsBestTokens) {
  expect_matrix(dense_weights(plan_for(*selector("expert-choice", kTwoOfFour), four_logits())),
                {{0.42948105406904, 0.260493427058572, 0, 0},
                 {0, 0.268643122468705, 0.442917630241454, 0.199015719985647},
                 {0, 0, 0.39053397262892, 0.319742173513011},
                 {0.789136836856084, 0, 0, 0}});
}

TEST(Hash, TakesTheTokenIdModE) {
  RoutingContext context;
  context.token_ids = torch::tensor({5, 0, 4, 11}, at::kLong);
  const Plan plan =
      plan_for(*selector("hash", kOneOfFour), at::zeros({4, 4}, at::kDouble), context);
  expect_matrix(dense_weights(plan), {{0, 1, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}});
  EXPECT_THROW(plan_for(*selector("hash", kOneOfFour), at::zeros({4, 4})), Error);
  EXPECT_THROW(plan_for(*selector("hash", kOneOfFour), at::zeros({3, 4}), context), Error);
}

TEST(Lory, SegmentsUseTheBlendOfTheOneBefore) {
  const auto lory = selector("lory", kOneOfFour, {{"segment_length", std::int64_t{2}}});
  RoutingContext context{.training = true};
  context.sequence_length = 4;  // 2 sequences of 2 segments
  const at::Tensor hidden = torch::arange(16, at::kDouble).view({8, 2});
  expect_matrix(lory->rows(hidden, context), {{1, 2}, {5, 6}, {9, 10}, {13, 14}});
  const at::Tensor z = four_logits().requires_grad_();
  const Plan plan = plan_for(*lory, z, context);
  expect_matrix(plan.merge_weights.detach(),
                {{0.42948105406904, 0.260493427058572, 0.117047241739573, 0.192978277132814},
                 {0.42948105406904, 0.260493427058572, 0.117047241739573, 0.192978277132814},
                 {0.236870828058814, 0.0528530257992544, 0.39053397262892, 0.319742173513011},
                 {0.236870828058814, 0.0528530257992544, 0.39053397262892, 0.319742173513011}});
  // The first segment of each sequence passes no gradient.
  plan.merge_weights.slice(0, 0, 4, 2).select(1, 0).sum().backward();
  EXPECT_EQ(z.grad().abs().max().item<double>(), 0);
  // Padding is in no mean.
  context.unpadded_length = 3;
  expect_matrix(lory->rows(hidden, context), {{1, 2}, {4, 5}, {9, 10}, {12, 13}});
  context.unpadded_length = 1;
  expect_matrix(lory->rows(hidden, context), {{0, 1}, {0, 0}, {8, 9}, {0, 0}});
  context.sequence_length = 3;
  EXPECT_THROW(lory->rows(hidden, context), Error);
}

}  // namespace
}  // namespace penstock::testing
