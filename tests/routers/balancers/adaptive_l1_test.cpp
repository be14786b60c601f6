// ReMoE's adaptive L1 loss: its forms against the constants of formulas.py, and how λ follows the
// sparsity under each controller, for the whole model and per layer. held_sparsity_test.cpp tests
// the controller "hold", which has no λ of its own.
#include <gtest/gtest.h>

#include <cmath>

#include "penstock/base/error.h"
#include "tests/routers/counted.h"
#include "tests/routers/four_tokens.h"

namespace penstock::testing {
namespace {

TEST(AdaptiveL1, ValueOfEachForm) {
  const auto loss = [](Options options) {
    options["initial"] = 0.5;
    return loss_of("adaptive-l1", {.d_model = 4, .experts = 4, .k = 1, .layers = 5}, options,
                   "relu");
  };
  EXPECT_NEAR(loss({}), 2.225, 1e-12);
  EXPECT_NEAR(loss({{"f_power", std::int64_t{2}}}), 6.025, 1e-12);
  EXPECT_NEAR(loss({{"load_balanced", false}}), 0.85, 1e-12);
  EXPECT_NEAR(loss({{"layers", std::string("mean")}}), 2.225 / 5, 1e-12);
}

/// The statistic l_reg excludes λ: it is 4.45 beside a loss of 0.5 · 4.45, and also with the
/// controller "hold" before it has a λ.
TEST(AdaptiveL1, LogsTheRegulariserByItself) {
  const auto logged = [](Options options) {
    options.insert({"initial", 0.5});
    const RouterShape shape{.d_model = 4, .experts = 4, .k = 1, .layers = 5};
    const at::Tensor z = four_logits();
    const auto relu = selector("relu", shape);
    const BalancerOutput out = balancer("adaptive-l1", shape, options)
                                   ->balance({.logits = z}, plan_for(*relu, z), kTraining);
    EXPECT_FALSE(out.statistics.at("l_reg").requires_grad());
    return out.statistics.at("l_reg").item<double>();
  };
  EXPECT_NEAR(logged({}), 4.45, 1e-12);
  EXPECT_NEAR(logged({{"load_balanced", false}}), 1.7, 1e-12);
  EXPECT_NEAR(logged({{"layers", std::string("mean")}}), 4.45 / 5, 1e-12);
  EXPECT_NEAR(logged({{"controller", std::string("hold")}}), 4.45, 1e-12);
}

TEST(AdaptiveL1, AddsAConstantToEachPositiveGatesGradient) {
  const at::Tensor z = four_logits().requires_grad_();
  const auto relu = selector("relu", kOneOfFour);
  balancer("adaptive-l1", kOneOfFour, {{"initial", 0.5}})
      ->balance({.logits = z}, plan_for(*relu, z), kTraining)
      .loss.backward();
  expect_matrix(z.grad(),
                {{.375, .25, 0, .375}, {0, .25, .25, .375}, {.375, 0, .25, .375}, {.375, 0, 0, 0}});
}

/// Expert 1 of 3 has no token, and a leak gives it two tokens. Its f is 0, but it counts for
/// nothing without load balancing, and a device's experts share the mean of their f, here 1.25.
TEST(AdaptiveL1, DoesNotPressOnTheGatesOfALeak) {
  const RouterShape three{.d_model = 2, .experts = 3, .k = 1};
  const auto gradient = [&](Options options) {
    const at::Tensor z =
        matrix({{1, -3, 0.5}, {0, -1, 2}, {-1, -0.5, -1}, {3, -2, 1}}).requires_grad_();
    options.insert({"initial", 0.5});
    const auto relu = selector("relu", three, {{"leak", 0.25}, {"leak_tokens", std::int64_t{2}}});
    const Plan plan = plan_for(*relu, z);
    EXPECT_EQ(plan.assignments(), 7);
    balancer("adaptive-l1", three, options)
        ->balance({.logits = z}, plan, kTraining)
        .loss.backward();
    return z.grad();
  };
  const double each = 0.5 / 4;
  expect_matrix(gradient({{"load_balanced", false}}),
                {{each, 0, each}, {0, 0, each}, {0, 0, 0}, {each, 0, each}});
  const double of_device = each * 1.25;
  expect_matrix(
      gradient({{"scope", std::string("device")}, {"devices", std::int64_t{1}}}),
      {{of_device, 0, of_device}, {0, 0, of_device}, {0, 0, 0}, {of_device, 0, of_device}});
}

/// λ after steps with these sparsities. λ starts at 1; the factor is 2; the target is 1 − 1/4 =
/// 0.75.
double lambda_after(const std::vector<double>& schedule, Options options) {
  options.insert({{"initial", 1.0}, {"factor", 2.0}});
  const auto l1 = balancer("adaptive-l1", kOneOfFour, options);
  for (const double sparsity : schedule) l1->after_step({.sparsity = sparsity});
  return l1->state().at("lambda");
}

TEST(AdaptiveL1, LambdaFollowsTheSparsity) {
  EXPECT_EQ(lambda_after({}, {}), 1);
  EXPECT_EQ(lambda_after({0.5}, {}), 2);
  EXPECT_EQ(lambda_after({0.5, 0.7, 0.74}, {}), 8);
  EXPECT_EQ(lambda_after({0.8, 0.9}, {}), 0.25);
  EXPECT_EQ(lambda_after({0.5, 0.9, 0.5}, {}), 2);
}

TEST(AdaptiveL1, AtEqualityCodeDividesAndPaperHolds) {
  EXPECT_EQ(lambda_after({0.75}, {}), 0.5);
  EXPECT_EQ(lambda_after({0.75}, {{"equality", std::string("paper")}}), 1);
}

TEST(AdaptiveL1, AFloorStopsTheUnderflow) {
  const std::vector<double> sparse(200, 0.9);  // 2^-200 is below fp32
  EXPECT_EQ(lambda_after(sparse, {}), 0);
  EXPECT_EQ(lambda_after(sparse, {{"floor", 0.125}}), 0.125);
}

TEST(AdaptiveL1, LambdaIsABufferInFp32) {
  const auto l1 = balancer("adaptive-l1", kOneOfFour, {});
  ASSERT_TRUE(l1->named_buffers().contains("lambda"));
  EXPECT_EQ(l1->named_buffers()["lambda"].scalar_type(), at::kFloat);
  l1->after_step({.sparsity = 0});
  EXPECT_FLOAT_EQ(l1->state().at("lambda"), 1e-8F * 1.2F);
}

TEST(AdaptiveL1, ThePapersRuleMovesByTheWholeFactor) {
  const auto part = balancer("adaptive-l1", kTwoLayers, {{"initial", 0.5}, {"factor", 1.25}});
  part->after_step({.sparsity = 0.74});
  EXPECT_EQ(part->state().at("lambda"), 0.625);
  part->after_step({.sparsity = 0.99});
  part->after_step({.sparsity = 0.75});  // at the target: the authors' code divides λ
  EXPECT_EQ(part->state().at("lambda"), 0.4000000059604645);  // 0.4 in f32
  EXPECT_EQ(part->named_buffers().size(), 1U);
}

TEST(AdaptiveL1, ThePapersEqualityHolds) {
  const auto part =
      balancer("adaptive-l1", kTwoLayers, {{"initial", 0.5}, {"equality", std::string("paper")}});
  part->after_step({.sparsity = 0.75});
  EXPECT_EQ(part->state().at("lambda"), 0.5);
}

TEST(AdaptiveL1, TheProportionalRuleMovesByThePowerOfTheError) {
  const auto part = balancer("adaptive-l1", kTwoLayers,
                             {{"initial", 0.25},
                              {"factor", 4.0},
                              {"width", std::log(4.0)},
                              {"controller", std::string("log-proportional")}});
  const auto at = [&](double active) {
    part->after_step({.sparsity = 1 - active / 8});
    return part->state().at("lambda");
  };
  EXPECT_NEAR(at(4), 0.5, 1e-7);   // twice the target is half of the width: 4^(1/2)
  EXPECT_NEAR(at(8), 2.0, 1e-6);   // at the width: 4
  EXPECT_NEAR(at(2), 2.0, 1e-6);   // at the target
  EXPECT_NEAR(at(1), 1.0, 1e-6);   // half of the target: 4^(-1/2)
  EXPECT_NEAR(at(0), 0.25, 1e-6);  // no expert is active: beyond the width, 1/4
}

/// An error changes the loss at once, by its `damping`-th power, and does not change λ.
TEST(AdaptiveL1, TheProportionalPartActsOnTheLoss) {
  const auto loss_after = [](double active) {
    const auto part = balancer("adaptive-l1", kTwoLayers,
                               {{"initial", 0.5},
                                {"factor", 1.0},
                                {"damping", 2.0},
                                {"load_balanced", false},
                                {"controller", std::string("log-proportional")}});
    part->after_step({.sparsity = 1 - active / 8});
    EXPECT_EQ(part->state().at("lambda"), 0.5);
    const Plan plan = make_plan(at::ones({4, 8}), at::ones({4, 8}, at::kBool));
    return part->balance({}, plan, {.training = true}).loss.item<double>();
  };
  EXPECT_NEAR(loss_after(2), 0.5 * 8, 1e-6);
  EXPECT_NEAR(loss_after(4), 0.5 * 8 * 4, 1e-5);
  EXPECT_NEAR(loss_after(1), 0.5 * 8 / 4, 1e-6);
}

TEST(AdaptiveL1, FloorAndCeilingHoldFromTheFirstStep) {
  const Options bounds = {{"initial", 1.0}, {"floor", 1e-3}, {"ceiling", 0.125}};
  const auto part = balancer("adaptive-l1", kTwoLayers, bounds);
  EXPECT_EQ(part->state().at("lambda"), 0.125);
  for (int i = 0; i < 100; ++i) part->after_step({.sparsity = 1});
  EXPECT_NEAR(part->state().at("lambda"), 1e-3, 1e-9);
  EXPECT_THROW(balancer("adaptive-l1", kTwoLayers, {{"floor", 1.0}, {"ceiling", 0.5}}), Error);
}

TEST(AdaptiveL1, EachLayerCanHaveItsOwn) {
  for (const char* const rule : {"paper", "log-proportional"}) {
    const auto part = balancer("adaptive-l1", kTwoLayers,
                               {{"initial", 0.5},
                                {"factor", 2.0},
                                {"width", 0.1},
                                {"damping", 0.0},
                                {"load_balanced", false},
                                {"per_layer", true},
                                {"controller", std::string(rule)}});
    part->after_step(counted({loads(50, 50), loads(5, 5)}));
    EXPECT_EQ(buffer(part, "lambda").sizes(), at::IntArrayRef{2});
    EXPECT_NEAR(part->state().at("lambda"), 0.5, 1e-7);  // the geometric mean of 1 and 1/4
    const Plan plan = make_plan(at::ones({4, 8}), at::ones({4, 8}, at::kBool));
    for (const std::int64_t layer : {0, 1}) {
      const RoutingContext context{.training = true, .layer = layer};
      EXPECT_NEAR(part->balance({}, plan, context).loss.item<double>(), layer == 0 ? 8.0 : 2.0,
                  1e-6);
    }
  }
}

}  // namespace
}  // namespace penstock::testing
