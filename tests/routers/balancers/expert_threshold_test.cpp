// Expert choice by thresholds instead of among all tokens: which tokens experts take (numbers of
// formulas.py), how thresholds follow training, and where the router uses them.
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "penstock/base/error.h"
#include "penstock/routers/as_trained.h"
#include "penstock/routers/compatible.h"
#include "penstock/routers/plain_router.h"
#include "penstock/routers/router.h"
#include "tests/routers/four_tokens.h"

namespace penstock::testing {
namespace {

const RouterShape kTwo{.d_model = 4, .experts = 4, .k = 2, .layers = 2};

StepStatistics lowest(const std::vector<double>& first, const std::vector<double>& second) {
  return {.lowest_taken = {first, second}};
}

TEST(ExpertThreshold, AnExpertTakesTheTokensWhoseScoresReachIt) {
  const at::Tensor z = four_logits().requires_grad_();
  const at::Tensor thresholds = torch::tensor({0.125, 0.25, 0.375, 0.1875});
  const Plan plan =
      selector("expert-choice", kTwo)->select({.logits = z, .thresholds = thresholds}, {});
  EXPECT_LT(farthest(dense_weights(plan),
                     matrix({{0.42948105406904, 0.260493427058572, 0, 0.192978277132814},
                             {0, 0.268643122468705, 0.442917630241454, 0.199015719985647},
                             {0.236870828058814, 0, 0.39053397262892, 0.319742173513011},
                             {0.789136836856084, 0, 0, 0}})),
            1e-12);
  EXPECT_FALSE(plan.lowest_taken.defined());
  // A weight is a softmax probability: its derivative by its own logit is p·(1 − p).
  const at::Tensor gradient = torch::autograd::grad({plan.weight[0]}, {z})[0];
  EXPECT_NEAR(gradient[0][0].item<double>(), 0.42948105406904 * (1 - 0.42948105406904), 1e-12);
}

TEST(ExpertThreshold, TrainingSaysTheLowestScoreThatEachExpertTook) {
  const auto parts = selector("expert-choice", kTwo);
  const Plan plan = parts->select({.logits = four_logits()}, {.training = true});
  EXPECT_LT(farthest(plan.lowest_taken, torch::tensor({0.42948105406904, 0.260493427058572,
                                                       0.39053397262892, 0.199015719985647},
                                                      at::kDouble)),
            1e-12);
  EXPECT_FALSE(plan.lowest_taken.requires_grad());
  EXPECT_FALSE(parts->select({.logits = four_logits()}, {}).lowest_taken.defined());
  const at::Tensor none = at::zeros({0, 4}, at::kDouble);
  EXPECT_FALSE(parts->select({.logits = none}, {.training = true}).lowest_taken.defined());
}

TEST(ExpertThreshold, IsTheRunningMeanOfTheStepsInWhichTheLayerHadTokens) {
  const auto part = balancer("expert-threshold", kTwo, {{"rate", 0.4}});
  const auto expect = [&](std::int64_t layer, double first, double last) {
    const at::Tensor found = part->thresholds(layer);
    EXPECT_NEAR(found[0].item<double>(), first, 1e-7);
    EXPECT_NEAR(found[3].item<double>(), last, 1e-7);
  };
  expect(0, 0.25, 0.25);  // 1/4: the score if all experts score alike
  part->after_step(lowest({0.5, 0.1, 0.1, 0.3}, {}));
  expect(0, 0.5, 0.3);
  expect(1, 0.25, 0.25);
  part->after_step(lowest({0.2, 0.1, 0.1, 0.4}, {0.125, 0.1, 0.1, 0.75}));
  expect(0, 0.35, 0.35);
  expect(1, 0.125, 0.75);
  part->after_step(lowest({0.65, 0.1, 0.1, 0.1}, {}));  // 1/3 is below the rate 0.4
  expect(0, 0.47, 0.25);
  EXPECT_NEAR(part->state().at("expert_threshold"),
              (0.47 + 0.1 + 0.1 + 0.25 + 0.125 + 0.1 + 0.1 + 0.75) / 8, 1e-7);
  EXPECT_FALSE(part->thresholds(0).requires_grad());
  EXPECT_FALSE(part->balance({}, {}, {.training = true}).loss.defined());
}

TEST(ExpertThreshold, CountsWeighPassesByTheirTokens) {
  const std::vector<std::int64_t> each{1, 1, 1, 1}, more{3, 3, 3, 3};
  const std::vector<double> low{0.5, 0.25, 0.125, 0.0625}, lower{0.25, 0.25, 0, 0.0625};
  StepCounts counts;
  counts.add(1, each, 2, low);
  counts.add(1, more, 6, lower);
  counts.add(0, each, 2);  // a layer in which tokens choose has no lowest scores
  StepCounts other = counts;
  const StepStatistics step = counts.take();
  EXPECT_TRUE(step.lowest_taken.at(0).empty());
  EXPECT_EQ(step.lowest_taken.at(1), (std::vector<double>{0.3125, 0.25, 0.03125, 0.0625}));
  // Two processes with the same tokens have the same means, over twice the tokens.
  other.sum_with([](const at::Tensor& numbers) { numbers.mul_(2); }, kTwo);
  const StepStatistics both = other.take();
  EXPECT_EQ(both.lowest_taken, step.lowest_taken);
  EXPECT_EQ(both.tokens, (std::vector<std::int64_t>{4, 16}));
  EXPECT_EQ(both.expert_tokens[1], (std::vector<std::int64_t>{8, 8, 8, 8}));
}

struct OneLayer {
  explicit OneLayer(const RouterConfig& config)
      : resolved(resolve(config)),
        balancers(make_balancers(resolved, shape)),
        router(resolved, shape, balancers) {
    router.initialize(0.5, InitialDraws(1));
  }
  at::Tensor weights(const at::Tensor& hidden, bool training) {
    RoutingResult out = router.route(hidden, {.training = training});
    StepCounts counts;
    counts.add(0, out.plan);
    if (training) balancers[0]->after_step(counts.take());
    return dense_weights(out.plan);
  }

  RouterShape shape{.d_model = 8, .experts = 4, .k = 2};
  ResolvedRouter resolved;
  std::vector<std::shared_ptr<Balancer>> balancers;
  Router router;
};

at::Tensor tokens(std::int64_t count) {
  torch::manual_seed(3);
  return at::randn({count, 8});
}

/// After one step the thresholds are those of its batch, so the batch gets the same plan from them.
/// A token's plan does not depend on the other tokens.
TEST(ExpertThreshold, RepeatsTheChoiceOfItsBatchTokenByToken) {
  const torch::NoGradGuard no_grad;
  OneLayer layer({.method = "expert-choice", .k = 2});
  const at::Tensor hidden = tokens(32);
  const at::Tensor chosen = layer.weights(hidden, true);
  EXPECT_EQ(chosen.count_nonzero().item<std::int64_t>(), 64);
  EXPECT_TRUE(layer.weights(hidden, false).equal(chosen));
  EXPECT_TRUE(layer.weights(hidden.slice(0, 0, 5), false).equal(chosen.slice(0, 0, 5)));
}

TEST(ExpertThreshold, ServesOutsideTrainingUnlessEvaluatedAsTrained) {
  const torch::NoGradGuard no_grad;
  const RouterConfig config{.method = "expert-choice", .k = 2};
  EXPECT_TRUE(resolve(config).traits.causal);
  EXPECT_FALSE(resolve(config).traits.even_loads);
  const RouterConfig papers = as_trained(config);
  EXPECT_FALSE(resolve(papers).traits.causal);
  EXPECT_TRUE(resolve(papers).traits.even_loads);
  OneLayer causal(config), batch(papers);
  for (OneLayer* layer : {&causal, &batch}) layer->weights(tokens(32), true);
  const at::Tensor few = tokens(40).slice(0, 32, 40);  // tokens that the thresholds did not see
  EXPECT_EQ(batch.weights(few, false).count_nonzero().item<std::int64_t>(), 16);
  EXPECT_FALSE(causal.weights(few, false).equal(batch.weights(few, false)));
  // Both routers have learned the same thresholds.
  EXPECT_TRUE(batch.balancers[0]->named_buffers()["threshold"].equal(
      causal.balancers[0]->named_buffers()["threshold"]));
  EXPECT_THROW(as_trained({.method = "topk"}), Error);
  EXPECT_THROW(as_trained({.method = "dense"}), Error);
}

TEST(ExpertThreshold, OutlivesFolding) {
  const RouterConfig folded = folded_router({.method = "expert-choice"}, false);
  EXPECT_TRUE(resolve(folded).traits.causal);
  EXPECT_TRUE(resolve(folded).traits.keeps_thresholds);
}

TEST(ExpertThreshold, IsRefusedWhereTokensChoose) {
  EXPECT_NE(compatible("linear", "topk", {"expert-threshold"}).find("takes none"),
            std::string::npos);
  const RouterConfig without{.method = "expert-choice", .balancers = std::vector<std::string>{}};
  EXPECT_FALSE(resolve(without).traits.causal);
}

}  // namespace
}  // namespace penstock::testing
