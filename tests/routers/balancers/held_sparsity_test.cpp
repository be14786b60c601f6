// Adaptive L1 with the controller "hold", which sets the number of active experts by a shift of the
// logits: the shift from a dense start to k, the shift in evaluation, and the loss, worked out by
// hand.
#include "penstock/routers/balancers/held_sparsity.h"

#include <gtest/gtest.h>

#include "penstock/routers/resolve.h"
#include "penstock/routers/router.h"
#include "tests/routers/counted.h"

namespace penstock::testing {
namespace {

std::shared_ptr<Balancer> holding(std::int64_t dense, std::int64_t ramp, double strength = 0.01) {
  return balancer("adaptive-l1", kTwoLayers,
                  {{"controller", std::string("hold")},
                   {"revive", 0.0},
                   {"strength", strength},
                   {"dense_steps", dense},
                   {"ramp_steps", ramp}});
}

/// Numbers of logit_shift.py: two steps without a shift, then from 4 experts a token to 2 in four
/// steps.
TEST(Hold, LeadsTheNumberOfExpertsFromADenseStartToK) {
  const auto part = holding(2, 4);
  const std::vector<std::int64_t> each{70, 60, 50, 50, 37, 25};
  const std::vector<double> shifts{0, 0, -0.008664, -0.030257, -0.048282, -0.048282};
  for (std::size_t i = 0; i < each.size(); ++i) {
    std::vector<std::int64_t> counts = loads(each[i], each[i] == 37 ? 41 : each[i]);
    part->after_step(counted({counts, counts}));
    EXPECT_NEAR(part->state().at("logit_shift"), shifts[i], 2e-6) << i;
  }
}

/// The shift outside training. While the target moves it is the step's own shift; then it is the
/// running mean. Here the means are b₁, (b₁ + b₂)/2 and, at a weight of a half, (b₁ + b₂)/4 + b₃/2.
TEST(Hold, EvaluatesWithTheMeanOfTheShiftsThatHeldK) {
  const auto part = balancer("adaptive-l1", kTwoLayers,
                             {{"controller", std::string("hold")},
                              {"revive", 0.0},
                              {"dense_steps", std::int64_t{1}},
                              {"ramp_steps", std::int64_t{3}},
                              {"average_steps", std::int64_t{2}}});
  std::vector<double> shifts, means;
  for (const std::int64_t each : {70, 60, 50, 90, 10, 70}) {
    part->after_step(counted({loads(each, each), loads(each, each)}));
    shifts.push_back(part->choice_bias(1)[2].item<double>());
    means.push_back(part->evaluation_bias(1)[2].item<double>());
  }
  EXPECT_EQ(shifts[0], 0);
  for (const std::size_t i : {0u, 1u, 2u, 3u}) EXPECT_EQ(means[i], shifts[i]) << i;
  EXPECT_NE(shifts[4], shifts[3]);
  EXPECT_NEAR(means[4], (shifts[3] + shifts[4]) / 2, 1e-7);
  EXPECT_NEAR(means[5], (shifts[3] + shifts[4]) / 4 + shifts[5] / 2, 1e-7);
  EXPECT_FALSE(balancer("adaptive-l1", kTwoLayers)->evaluation_bias(0).defined());
}

/// The router adds the step's shift in training and the mean shift outside training.
TEST(Hold, ARouterShiftsByTheMeanOutsideTraining) {
  ConfigNode hold = node({{"controller", std::string("hold")}});
  const ResolvedRouter router =
      resolve({.method = "remoe", .k = 1, .parts = {{"adaptive-l1", hold}}});
  const RouterShape shape{.d_model = 2, .experts = 4, .k = 1};
  const auto balancers = make_balancers(router, shape);
  balancers[0]->named_buffers()["bias"].fill_(1);
  balancers[0]->named_buffers()["mean_bias"].fill_(2);
  Router made(router, shape, balancers);
  made.initialize(0.02, InitialDraws(1));
  const at::Tensor hidden = at::zeros({3, 2});  // the logits are 0, so each gate equals the shift
  EXPECT_TRUE(made.route(hidden, {.training = true}).plan.weight.eq(1).all().item<bool>());
  EXPECT_TRUE(made.route(hidden, {}).plan.weight.eq(2).all().item<bool>());
}

/// The loss is strength·g/L·Σ_e f_e Σ_t R_te / Σ_te R_te with g = −shift / mean gate, at most 1.
/// There is no loss if the shift is not negative.
TEST(Hold, TheLossIsThatOfGatesOfAnyScale) {
  const auto part = holding(0, 0, 0.5);
  at::Tensor gates = at::zeros({4, 8});
  gates.select(1, 0).fill_(0.25);
  gates[0][1] = 0.5;  // f = (4·8/(2·4), 8/(2·4)) = (4, 1), sums of gates 1 and 0.5
  const auto of_scale = [&](double scale) {
    Plan plan = make_plan(gates * scale, gates > 0);
    plan.k = kTwoLayers.k;
    return part->balance({}, plan, {.training = true, .layer = 1});
  };
  const auto loss = [&](double scale) { return of_scale(scale).loss.item<double>(); };
  EXPECT_FALSE(of_scale(1).loss.defined());  // the shift is still 0
  buffer(part, "bias").fill_(-0.06);         // the mean gate is 0.3, so g = 0.2
  EXPECT_NEAR(loss(1), 0.5 * 0.2 / 2 * (4 * 1 + 1 * 0.5) / 1.5, 1e-7);
  const double lambda = 0.5 * 0.2 / 2 / (1.5 / 4);
  EXPECT_NEAR(of_scale(1).statistics.at("lambda").item<double>(), lambda / 2, 1e-7);  // of 2 layers
  EXPECT_NEAR(loss(0.1), 0.5 / 2 * 3, 1e-7);  // g is at most 1
  EXPECT_NEAR(loss(1e-6), 0.5 / 2 * 3, 1e-6);
  buffer(part, "bias").fill_(0.01);
  EXPECT_FALSE(of_scale(1).loss.defined());
  EXPECT_EQ(of_scale(1).statistics.at("lambda").item<double>(), 0);
}

/// With a leak of the gradient, a layer without a positive logit has assignments of weight 0. Such
/// a layer has no loss.
TEST(Hold, GatesThatAreAllZeroHaveNoLoss) {
  const auto part = holding(0, 0, 0.5);
  buffer(part, "bias").fill_(-0.06);
  const at::Tensor gates = at::zeros({4, 8}).requires_grad_();
  const at::Tensor mask = at::zeros({4, 8}, at::kBool);
  mask.select(1, 3).fill_(true);
  Plan plan = make_plan(gates, mask);
  plan.k = kTwoLayers.k;
  ASSERT_EQ(plan.assignments(), 4);
  const BalancerOutput out = part->balance({}, plan, {.training = true, .layer = 1});
  EXPECT_FALSE(out.loss.defined()) << out.loss;
  EXPECT_EQ(out.statistics.at("lambda").item<double>(), 0);
  EXPECT_EQ(out.statistics.at("l_reg").item<double>(), 0);
}

TEST(Hold, OnlyItsOwnControllerBiasesTheChoice) {
  const auto biases = [](const char* controller) {
    return resolve({.method = "remoe",
                    .parts = {{"adaptive-l1", node({{"controller", std::string(controller)}})}}})
        .traits.biases_choice;
  };
  EXPECT_TRUE(biases("hold"));
  EXPECT_FALSE(biases("paper"));
  EXPECT_FALSE(balancer("adaptive-l1", kTwoLayers)->choice_bias(0).defined());
}

}  // namespace
}  // namespace penstock::testing
