// Loss-free balancing by a bias on the choice, against the numbers of gating.py: which experts it
// chooses, that the gates ignore the bias, and how loads change the bias.
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "penstock/base/error.h"
#include "penstock/routers/compatible.h"
#include "penstock/routers/resolve.h"
#include "penstock/routers/router.h"
#include "tests/base/error_of.h"
#include "tests/routers/gating_expected.h"
#include "tests/routers/parts.h"

namespace penstock::testing {
namespace {

at::Tensor in_fours(const std::vector<double>& numbers) {
  return torch::tensor(numbers, at::kDouble).view({-1, 4});
}

/// A balancer for `layers` layers of four experts. Every layer has these biases.
std::shared_ptr<Balancer> with_bias(const std::vector<double>& bias, std::int64_t layers = 1) {
  const auto out =
      balancer("loss-free", {.d_model = 4, .experts = 4, .layers = layers}, {{"rate", 0.01}});
  const torch::NoGradGuard no_grad;
  out->named_buffers()["bias"].copy_(torch::tensor(bias, at::kDouble));
  return out;
}

TEST(LossFree, ChoosesAsTheScriptDoesAndWeighsWithoutTheBias) {
  for (const BiasCase& expected : kBias)
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      SCOPED_TRACE(concat(expected.softmax, " ", expected.k, " ", type));
      const double tolerance = type == at::kDouble ? 1e-12 : 1e-6;
      const auto topk = selector(
          "topk", {.d_model = 4, .experts = 4, .k = static_cast<double>(expected.k)},
          {{"softmax", std::string(expected.softmax)}, {"renormalise", expected.renormalise}});
      const auto bias = with_bias(expected.bias);
      const at::Tensor leaf = in_fours(kLogits).to(type).requires_grad_();
      const Plan plan = topk->select({.logits = leaf, .choice_bias = bias->choice_bias(0)}, {});
      EXPECT_LT(farthest(dense_weights(plan), in_fours(expected.weights)), tolerance);
      const at::Tensor probe = in_fours(kWeightProbe).index({plan.token, plan.expert});
      const at::Tensor gradient =
          torch::autograd::grad({(plan.weight * probe.to(plan.weight.options())).sum()}, {leaf})[0];
      EXPECT_LT(farthest(gradient, in_fours(expected.weights_grad)), 10 * tolerance);

      StepCounts counts;
      counts.add(0, plan);
      const StepStatistics step = counts.take();
      EXPECT_EQ(step.expert_tokens, (std::vector<std::vector<std::int64_t>>{expected.counts}));
      bias->after_step(step);
      EXPECT_LT(farthest(bias->choice_bias(0), torch::tensor(expected.moved, at::kDouble)), 1e-7);
    }
}

TEST(LossFree, EachLayersBiasFollowsItsOwnLoads) {
  const auto bias = with_bias({0, 0, 0, 0}, 3);
  bias->after_step({.expert_tokens = {{7, 1, 2, 2}, {}, {3, 3, 3, 3}}});
  EXPECT_LT(farthest(bias->choice_bias(0), torch::tensor({-0.01, 0.01, 0.01, 0.01})), 1e-7);
  EXPECT_EQ(bias->choice_bias(1).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(bias->choice_bias(2).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_NEAR(bias->state().at("bias_range"), 0.02, 1e-7);
}

TEST(LossFree, HasStateAndNeitherParametersNorALoss) {
  const auto bias = with_bias({0, 0, 0, 0}, 3);
  EXPECT_TRUE(bias->parameters().empty());
  EXPECT_FALSE(bias->choice_bias(2).requires_grad());
  EXPECT_EQ(bias->named_buffers()["bias"].sizes(), (at::IntArrayRef{3, 4}));
  EXPECT_FALSE(bias->balance({}, {}, {.training = true}).loss.defined());
}

/// The router uses its own layer's bias, in training and outside.
TEST(LossFree, ARouterChoosesByTheBiasOfItsLayer) {
  const ResolvedRouter router = resolve({.method = "loss-free", .k = 1});
  const at::Tensor hidden = at::zeros({3, 2});  // the logits are 0, so the bias alone decides
  for (const bool training : {false, true})
    for (const std::int64_t layer : {0, 1}) {
      const RouterShape shape{.d_model = 2, .experts = 4, .k = 1, .layer = layer, .layers = 2};
      const auto balancers = make_balancers(router, shape);
      balancers[0]->named_buffers()["bias"].copy_(
          torch::tensor({0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0}).view({2, 4}));
      Router made(router, shape, balancers);
      made.initialize(0.02, InitialDraws(1));
      const RoutingResult result = made.route(hidden, {.training = training});
      EXPECT_TRUE(result.plan.expert.eq(layer == 0 ? 1 : 3).all().item<bool>());
      EXPECT_TRUE(result.plan.weight.eq(0.5).all().item<bool>());  // sigmoid(0)
      EXPECT_FALSE(result.loss.defined());
    }
}

TEST(LossFree, IsRefusedWhereNothingTakesTheBias) {
  expect_says(compatible("linear", "gshard", {"loss-free"}), {"takes none"});
  expect_says(compatible("linear", "expert-choice", {"loss-free"}), {"keeps even already"});
  expect_says(compatible("noisy-linear", "topk", {"load", "loss-free"}), {"biases the choice"});
}

}  // namespace
}  // namespace penstock::testing
