// Plans: the direct index against a hand-worked one and against the ATen oracle, and the gradient.
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/top_mask.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::matrix;

std::vector<std::int64_t> list(const at::Tensor& t) {
  const at::Tensor flat = t.contiguous();
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}
using Ints = std::vector<std::int64_t>;

TEST(Plan, SortsAssignmentsByExpertAndIndexesThemByToken) {
  const at::Tensor gates = matrix({{.1, .2, .3}, {.4, .5, .6}, {.7, .8, .9}, {1.0, 1.1, 1.2}});
  const at::Tensor mask =
      torch::tensor({0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0}).view({4, 3}).to(at::kBool);
  const Plan plan = make_plan(gates, mask);
  EXPECT_EQ(plan.assignments(), 4);
  EXPECT_EQ(list(plan.expert), (Ints{0, 0, 2, 2}));
  EXPECT_EQ(list(plan.token), (Ints{1, 3, 0, 1}));
  EXPECT_EQ(list(plan.offsets), (Ints{0, 2, 2, 4}));
  EXPECT_EQ(list(plan.token_offsets), (Ints{0, 1, 3, 3, 4}));
  EXPECT_EQ(list(plan.by_token), (Ints{2, 0, 3, 1}));
  EXPECT_EQ(list(expert_counts(plan)), (Ints{2, 0, 2}));
  EXPECT_TRUE(plan.weight.equal(torch::tensor({.4, 1.0, .3, .6}, at::kDouble)));
  EXPECT_DOUBLE_EQ(sparsity(plan), 1 - 4 / 12.);
}

TEST(Plan, EqualsTheOracleForEveryShapeAndDensity) {
  torch::manual_seed(1);
  for (const std::int64_t tokens : {0, 1, 7, 64})
    for (const std::int64_t experts : {1, 5, 8, 9, 16, 67})
      for (const double density : {0.0, 0.05, 0.5, 1.0}) {
        const at::Tensor gates = torch::randn({tokens, experts});
        const at::Tensor mask = torch::rand({tokens, experts}) < density;
        const Plan direct = make_plan(gates, mask);
        const ops::ReferenceOnly only;
        const Plan oracle = make_plan(gates, mask);
        for (const auto member : {&Plan::token, &Plan::expert, &Plan::weight, &Plan::offsets,
                                  &Plan::by_token, &Plan::token_offsets})
          ASSERT_TRUE((direct.*member).equal(oracle.*member)) << tokens << "x" << experts;
      }
}

/// The plan of a range of tokens equals the plan made from the range's mask, and so does its
/// gradient.
TEST(Plan, OfSomeTokensIsThatOfTheirMask) {
  torch::manual_seed(2);
  for (const double density : {0.0, 0.4, 1.0})
    for (const IndexRange part : {IndexRange{0, 7}, {0, 3}, {3, 7}, {4, 4}, {6, 7}}) {
      const at::Tensor gates = torch::randn({7, 5}, at::kDouble).requires_grad_();
      const at::Tensor mask = torch::rand({7, 5}) < density;
      const Plan found = plan_of_tokens(make_plan(gates, mask), part),
                 expected = make_plan(gates.narrow(0, part.first, part.size()),
                                      mask.narrow(0, part.first, part.size()));
      EXPECT_EQ(found.tokens, part.size());
      EXPECT_EQ(found.experts, 5);
      for (const auto member : {&Plan::token, &Plan::expert, &Plan::weight, &Plan::offsets,
                                &Plan::by_token, &Plan::token_offsets})
        ASSERT_TRUE((found.*member).equal(expected.*member)) << part.first << " " << part.last;
      const auto gradient = [&](const Plan& plan) {
        return torch::autograd::grad({plan.weight.square().sum()}, {gates})[0];
      };
      EXPECT_TRUE(gradient(found).equal(gradient(expected)));
    }
  const at::Tensor weights = torch::rand({4, 3});
  const Plan blends = plan_of_tokens(make_merge_plan(weights, 8, 2), {2, 6});
  EXPECT_EQ(blends.tokens, 4);
  EXPECT_TRUE(blends.merge_weights.equal(weights.narrow(0, 1, 2)));
  EXPECT_THROW(plan_of_tokens(make_merge_plan(weights, 8, 2), {1, 5}), AssertionError);
}

TEST(Plan, ReadsMasksThatAreNotContiguous) {
  const at::Tensor gates = torch::rand({6, 4}), mask = torch::rand({4, 6}) < 0.5;
  EXPECT_TRUE(
      make_plan(gates, mask.t()).token.equal(make_plan(gates, mask.t().contiguous()).token));
}

TEST(Plan, HandsTheWeightsGradientToTheMaskedGates) {
  const at::Tensor gates = torch::rand({3, 2}, at::kDouble).requires_grad_();
  const at::Tensor mask = torch::tensor({1, 0, 1, 1, 0, 0}).view({3, 2}).to(at::kBool);
  const Plan plan = make_plan(gates, mask);  // assignments (token, expert): (0,0), (1,0), (1,1)
  (plan.weight * torch::tensor({2.0, 3.0, 5.0}, at::kDouble)).sum().backward();
  EXPECT_TRUE(gates.grad().equal(matrix({{2, 0}, {3, 5}, {0, 0}})));
}

TEST(Plan, GradientsRepeatBitwiseAtFourThousandRows) {
  torch::manual_seed(3);
  const at::Tensor gates = torch::randn({4096, 8}).requires_grad_();
  const at::Tensor weights = torch::randn({8, 64}), mask = gates.detach() > 0;
  at::Tensor first;
  for (int repeat = 0; repeat < 5; ++repeat) {
    gates.mutable_grad() = at::Tensor();
    const Plan plan = make_plan(gates, mask);
    (plan.weight.unsqueeze(1) * weights.index_select(0, plan.expert)).square().sum().backward();
    if (repeat == 0) first = gates.grad().clone();
    EXPECT_TRUE(gates.grad().equal(first));
  }
}

TEST(TopMask, EqualsTheOracleWithTiesAndNaN) {
  torch::manual_seed(4);
  for (const std::int64_t columns : {1, 3, 8, 33})
    for (std::int64_t k = 0; k <= columns; k += 1 + columns / 5) {
      at::Tensor logits = torch::randint(-2, 3, {200, columns}, at::kDouble);
      logits.masked_fill_(torch::rand({200, columns}) < 0.2, NAN);
      logits.masked_fill_(torch::rand({200, columns}) < 0.1, -INFINITY);
      const at::Tensor mask = ops::top_mask(logits, k);
      EXPECT_TRUE(mask.equal(ops::top_mask_reference(logits, k)))
          << columns << " columns, k = " << k;
      EXPECT_TRUE(mask.sum(1).eq(k).all().item<bool>());
    }
}

TEST(Plan, MergingPlansCoverEveryToken) {
  const Plan plan = make_merge_plan(torch::rand({3, 2}), 12, 4);
  EXPECT_TRUE(plan.merges());
  EXPECT_EQ(plan.assignments(), 0);
  EXPECT_EQ(sparsity(plan), 0);
  EXPECT_THROW(make_merge_plan(torch::rand({3, 2}), 13, 4), Error);
  EXPECT_THROW(make_merge_plan(torch::rand({3, 2}), 0, 0), Error);
}

TEST(Plan, RejectsMasksThatDoNotFit) {
  EXPECT_THROW(make_plan(torch::rand({3, 2}), torch::ones({2, 3}, at::kBool)), Error);
  EXPECT_THROW(make_plan(torch::rand({3, 2}), torch::ones({3, 2})), Error);
  EXPECT_THROW(make_plan(torch::rand({6}), torch::ones({6}, at::kBool)), Error);
}

}  // namespace
}  // namespace penstock
