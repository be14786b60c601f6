// Gradients of selectors' weights and balancers' losses with respect to the logits, against the
// numbers of gradients.py, which differentiates the published formulas. gating_test.cpp has the
// gradients of selectors with a capacity and of the load loss; balancers/loss_free_test.cpp those
// with a bias of the choice; balancers/logit_shift_test.cpp those with a shift of the logits;
// scorers/scorers_test.cpp those of scorers.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/routers/gating_expected.h"
#include "tests/routers/gradients_expected.h"

namespace penstock::testing {
namespace {

/// The precision of the references, and the precision of training.
constexpr at::ScalarType kPrecisions[] = {at::kDouble, at::kFloat};

/// f64 [rows, 4].
at::Tensor rows_of_four(const std::vector<double>& numbers) {
  return torch::tensor(numbers, at::kDouble).view({-1, 4});
}

at::Tensor logits_leaf(at::ScalarType type) {
  return rows_of_four(kLogits).to(type).requires_grad_();
}

RouterShape four_experts(double k) { return {.d_model = 4, .experts = 4, .k = k, .layers = 5}; }

/// A training context with two sequences and the draws of seed 5.
RoutingContext two_sequences() {
  RoutingContext context{.training = true};
  context.token_ids = torch::tensor(kTokenIds, at::kLong);
  context.sequence_length = kSequence;
  context.generator = at::detail::createCPUGenerator(5);
  return context;
}

Plan routed(const std::string& name, double k, const Options& options, const at::Tensor& leaf) {
  const auto part = selector(name, four_experts(k), options);
  const RoutingContext context = two_sequences();
  Plan plan = part->select({.logits = part->rows(leaf, context)}, context);
  plan.k = part->nominal_k(context);
  return plan;
}

/// sum(weights * probe). In a merging plan the sum goes over the segments' weights.
at::Tensor probed(const Plan& plan) {
  const at::Tensor probe = rows_of_four(kWeightProbe);
  if (plan.merges())
    return (plan.merge_weights * probe.slice(0, 0, plan.merge_weights.size(0))).sum();
  const at::Tensor entries = probe.index({plan.token, plan.expert});
  return (plan.weight * entries.to(plan.weight.options())).sum();
}

at::Tensor gradient_of(const at::Tensor& objective, const at::Tensor& leaf) {
  return torch::autograd::grad({objective}, {leaf}, {}, /*retain_graph=*/true)[0];
}

void expect_rows(const at::Tensor& actual, const std::vector<double>& expected, const char* what) {
  const at::Tensor wanted = rows_of_four(expected);
  ASSERT_EQ(actual.sizes(), wanted.sizes()) << what;
  const double tolerance = actual.scalar_type() == at::kDouble ? 1e-12 : 1e-5;
  EXPECT_LT(farthest(actual, wanted), tolerance) << what;
}

TEST(Gradients, OfASelectorsWeightsAreThoseOfTheScript) {
  for (const SelectorCase& expected : kSelectorCases)
    for (const at::ScalarType type : kPrecisions) {
      SCOPED_TRACE(concat(expected.selector, " ", expected.k, " ", type));
      const at::Tensor leaf = logits_leaf(type);
      const Plan plan = routed(expected.selector, expected.k, expected.options, leaf);
      const bool ignores = selector_registry().at(expected.selector).traits.ignores_logits;
      expect_rows(plan.merges() ? plan.merge_weights.detach() : dense_weights(plan),
                  expected.weights, "weights");
      const at::Tensor objective = probed(plan);
      EXPECT_EQ(objective.requires_grad(), !ignores);
      expect_rows(ignores ? at::zeros_like(leaf) : gradient_of(objective, leaf), expected.grad,
                  "gradient");
    }
}

TEST(Gradients, OfABalancersLossAreThoseOfTheScript) {
  for (const BalancerCase& expected : kBalancerCases)
    for (const at::ScalarType type : kPrecisions) {
      SCOPED_TRACE(concat(expected.balancer, " after ", expected.selector, " ", expected.k, ", ",
                          expected.loss, " ", type));
      const at::Tensor leaf = logits_leaf(type);
      const Plan plan = routed(expected.selector, expected.k, expected.selector_options, leaf);
      RoutingContext context = two_sequences();
      context.rank = expected.rank;
      if (!expected.others.empty())
        context.reduce = [&](std::int64_t, const at::Tensor& mine) {
          return mine + torch::tensor(expected.others, mine.options());
        };
      const auto part = balancer(expected.balancer, four_experts(expected.k), expected.options);
      const at::Tensor loss = part->balance({.logits = leaf}, plan, context).loss;
      EXPECT_NEAR(loss.item<double>(), expected.loss, type == at::kDouble ? 1e-12 : 1e-5);
      expect_rows(gradient_of(loss, leaf), expected.grad, "gradient");
      expect_rows(gradient_of(loss + probed(plan), leaf), expected.joint, "with the weights");
    }
}

TEST(Gradients, TheScriptsHaveACaseOfEverySelectorAndBalancer) {
  std::set<std::string> known{"topk-capacity", "gshard",    "load",
                              "loss-free",     "threshold", "expert-threshold"};  // see above
  for (const SelectorCase& each : kSelectorCases) known.insert(each.selector);
  for (const BalancerCase& each : kBalancerCases) known.insert(each.balancer);
  for (const auto& name : selector_registry().names()) EXPECT_TRUE(known.contains(name)) << name;
  for (const auto& name : balancer_registry().names()) EXPECT_TRUE(known.contains(name)) << name;
}

}  // namespace
}  // namespace penstock::testing
