// ReLU routing: the chosen experts and their weights, the cap on their number, and the gradient
// leak to experts without tokens.
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <limits>

#include "penstock/base/error.h"
#include "penstock/routers/balancers/load_fraction.h"
#include "penstock/routers/balancers/logit_shift.h"
#include "tests/routers/four_tokens.h"

namespace penstock::testing {
namespace {

TEST(Relu, TakesPositiveLogitsAsWeights) {
  const at::Tensor z = four_logits().requires_grad_();
  const Plan plan = plan_for(*selector("relu", kOneOfFour), z);
  expect_matrix(dense_weights(plan),
                {{1.0, 0.5, 0, 0.2}, {0, 0.4, 0.9, 0.1}, {0.3, 0, 0.8, 0.6}, {2.0, 0, 0, 0}});
  EXPECT_DOUBLE_EQ(sparsity(plan), 1 - 10 / 16.);
  plan.weight.sum().backward();
  EXPECT_TRUE(z.grad().equal((four_logits() > 0).to(at::kDouble)));
}

TEST(Relu, KeepsNaNInThePlan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Plan plan = plan_for(*selector("relu", kOneOfFour), matrix({{nan, -1, 1, -1}}));
  EXPECT_EQ(plan.assignments(), 2);
  EXPECT_TRUE(plan.weight.isnan().any().item<bool>());
}

TEST(Relu, TakesAtMostSoManyOfTheHighest) {
  const Plan plan =
      plan_for(*selector("relu", kTwoOfFour, {{"most", std::int64_t{2}}}), four_logits());
  expect_matrix(dense_weights(plan),
                {{1.0, 0.5, 0, 0}, {0, 0.4, 0.9, 0}, {0, 0, 0.8, 0.6}, {2.0, 0, 0, 0}});
  const RouterShape halves{.d_model = 4, .experts = 4, .k = 2, .granularity = 2};
  EXPECT_TRUE(
      dense_weights(plan_for(*selector("relu", halves, {{"most", std::int64_t{1}}}), four_logits()))
          .equal(dense_weights(plan)));
}

TEST(Relu, KeepsNaNInACappedPlan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto part = selector("relu", kTwoOfFour, {{"most", std::int64_t{2}}});
  const Plan plan = plan_for(*part, matrix({{nan, nan, nan, nan}, {nan, -1, 1, -1}}));
  EXPECT_TRUE(plan.weight.isnan().any().item<bool>());
}

TEST(Relu, RefusesAnImpossibleCap) {
  const RouterShape four{.d_model = 4, .experts = 4, .k = 2};
  EXPECT_THROW(selector("relu", four, {{"most", std::int64_t{5}}}), Error);
  EXPECT_THROW(selector("relu", four, {{"most", std::int64_t{1}}}), Error);
  EXPECT_NO_THROW(selector("relu", four, {{"most", std::int64_t{4}}}));
}

/// Expert 1 has no token. The plan includes the two tokens with its highest logits, at weight 0, so
/// that its gradient passes and no output changes.
TEST(Relu, LetsTheGradientOfAnIdleExpertThrough) {
  const at::Tensor z = matrix({{1, -3, 0.5}, {0, -1, 2}, {-1, -0.5, -1}, {3, -2, 1}});
  const at::Tensor leaf = z.clone().requires_grad_();
  const Options leak = {{"leak", 0.25}, {"leak_tokens", std::int64_t{2}}};
  const RouterShape three{.d_model = 2, .experts = 3, .k = 1};
  const auto part = selector("relu", three, leak);
  const Plan plan = part->select({.logits = leaf}, kTraining);
  EXPECT_TRUE(dense_weights(plan).equal(z.clamp_min(0)));
  const at::Tensor factors = matrix({{2, 3, 5}, {7, 11, 13}, {17, 19, 23}, {29, 31, 37}});
  (plan.weight * factors.index({plan.token, plan.expert})).sum().backward();
  EXPECT_TRUE(
      leaf.grad().equal(matrix({{2, 0, 5}, {0, 0.25 * 11, 13}, {0, 0.25 * 19, 0}, {29, 0, 37}})));
  // Nothing leaks outside training, or if every expert has a token.
  EXPECT_EQ(part->select({.logits = z}, {}).assignments(), 5);
  EXPECT_EQ(part->select({.logits = z.abs()}, kTraining).assignments(), 11);
  // Under a cap an expert with positive logits can be idle.
  const Options capped = {
      {"leak", 0.5}, {"leak_tokens", std::int64_t{1}}, {"most", std::int64_t{1}}};
  const Plan of_cap = selector("relu", three, capped)
                          ->select({.logits = matrix({{2, 1, -1}, {3, 0.5, -2}})}, kTraining);
  EXPECT_TRUE(dense_weights(of_cap).equal(matrix({{2, 0, 0}, {3, 0, 0}})));
  EXPECT_EQ(of_cap.assignments(), 4);
}

/// The plan of LetsTheGradientOfAnIdleExpertThrough: expert 1 of 3 has no token, and two
/// assignments for its gradient.
Plan leaking_plan() {
  const RouterShape three{.d_model = 2, .experts = 3, .k = 1};
  const auto part = selector("relu", three, {{"leak", 0.25}, {"leak_tokens", std::int64_t{2}}});
  return plan_for(*part, matrix({{1, -3, 0.5}, {0, -1, 2}, {-1, -0.5, -1}, {3, -2, 1}}));
}

TEST(Relu, ALeakIsNoLoad) {
  const Plan plan = leaking_plan();
  ASSERT_EQ(plan.assignments(), 7);  // with the two of expert 1
  EXPECT_TRUE(expert_counts(plan).equal(torch::tensor({2, 0, 3}, at::kLong)));
  EXPECT_EQ(active_assignments(plan), 5);
  EXPECT_DOUBLE_EQ(sparsity(plan), 1 - 5 / 12.);
  const Plan last = plan_of_tokens(plan, {2, 4});  // each token of expert 1 is in one half
  EXPECT_EQ(last.assignments(), 3);
  EXPECT_TRUE(expert_counts(last).equal(torch::tensor({1, 0, 1}, at::kLong)));
  // f = E·c / (k·T) of all tokens, and of two sequences of two tokens.
  expect_matrix(load_fraction(plan, {}, kTraining), {{1.5, 0, 2.25}});
  expect_matrix(
      load_fraction(plan, {.scope = Scope::sequence}, {.training = true, .sequence_length = 2}),
      {{1.5, 0, 3}, {1.5, 0, 1.5}});
}

/// The even load is 4·1.25/3 tokens. Expert 1 has less than a tenth of it and gets the additional
/// shift of rate/10. The number of active experts is at its target, so that no other shift moves.
TEST(Relu, ALeakDoesNotKeepAnExpertFromItsRevival) {
  StepCounts counts;
  counts.add(0, leaking_plan());
  const StepStatistics step = counts.take();
  EXPECT_EQ(step.expert_tokens[0], (std::vector<std::int64_t>{2, 0, 3}));
  EXPECT_DOUBLE_EQ(step.active(0), 1.25);
  EXPECT_DOUBLE_EQ(step.sparsity, 1 - 5 / 12.);
  torch::nn::Module owner;
  const RouterShape shape{.d_model = 2, .experts = 3, .k = 1.25};
  LogitShift shift(shape, {.rate = 0.5, .revive = 0.1}, owner);
  shift.move(step, 1.25);
  EXPECT_LT(farthest(shift.bias(), matrix({{0, 0.05, 0}})), 1e-6) << shift.bias();
}

TEST(Relu, OpensAnIdleExpertThatWouldHelp) {
  for (const double leak : {0.0, 0.5}) {
    at::Tensor z = matrix({{-0.5}}).requires_grad_();
    const auto part = selector("relu", {.d_model = 1, .experts = 1, .k = 1}, {{"leak", leak}});
    for (int step = 0; step < 60; ++step) {
      const at::Tensor gate = part->select({.logits = z}, kTraining).weight.sum();
      // The second term keeps the loss differentiable if no gate is open.
      const at::Tensor loss = (gate - 1).square() + 0 * z.sum();
      const at::Tensor gradient = torch::autograd::grad({loss}, {z})[0];
      z = (z - 0.05 * gradient).detach().requires_grad_();
    }
    EXPECT_NEAR(z.item<double>(), leak > 0 ? 1 : -0.5, 0.1) << leak;
  }
}

}  // namespace
}  // namespace penstock::testing
