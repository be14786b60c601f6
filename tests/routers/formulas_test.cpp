// Selectors and balancers against the constants of formulas.py, which knows the formulas only.
#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::balancer;
using testing::dense_weights;
using testing::matrix;
using testing::Options;
using testing::selector;

at::Tensor logits() {
  return matrix({{1.0, 0.5, -0.3, 0.2},
                 {-0.7, 0.4, 0.9, 0.1},
                 {0.3, -1.2, 0.8, 0.6},
                 {2.0, -0.5, 0.0, -1.0}});
}
const RouterShape kTwo{.d_model = 4, .experts = 4, .k = 2};
const RouterShape kOne{.d_model = 4, .experts = 4, .k = 1};
const RoutingContext kTraining{.training = true};

void expect_near(const at::Tensor& actual, const std::vector<std::vector<double>>& expected) {
  EXPECT_LT((actual - matrix(expected)).abs().max().item<double>(), 1e-12) << actual;
}

/// The plan as the router would hand it to balancers.
Plan plan_of(Selector& selector, const at::Tensor& z, const RoutingContext& context = kTraining) {
  Plan plan = selector.select({.logits = z}, context);
  plan.k = selector.nominal_k(context);
  return plan;
}

double loss_of(const std::string& name, const RouterShape& shape, const Options& options,
               const std::string& select) {
  const auto parts = selector(select, shape);
  const at::Tensor z = logits();
  return balancer(name, shape, options)
      ->balance({.logits = z}, plan_of(*parts, z), kTraining)
      .loss.item<double>();
}

TEST(TopK, SoftmaxBeforeKeepsProbabilities) {
  expect_near(dense_weights(plan_of(*selector("topk", kTwo), logits())),
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
    expect_near(dense_weights(plan_of(*selector("topk", kTwo, options), logits())), expected);
}

TEST(TopK, AfterAtOneExpertHasWeightOneAndNoGradient) {
  const at::Tensor z = logits().requires_grad_();
  const Plan plan = plan_of(*selector("topk", kOne, {{"softmax", std::string("after")}}), z);
  EXPECT_TRUE(plan.weight.detach().equal(torch::ones({4}, at::kDouble)));
  plan.weight.sum().backward();
  EXPECT_EQ(z.grad().abs().max().item<double>(), 0);
}

TEST(TopK, TiesGoToTheLowerExpert) {
  const Plan plan =
      plan_of(*selector("topk", kTwo), matrix({{1, 1, 1, 1}, {0, 2, 0, 0}, {-1, 3, 3, 3}}));
  const at::Tensor expected =
      torch::tensor({1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0}).view({3, 4}).to(at::kBool);
  EXPECT_TRUE(testing::dense_mask(plan).equal(expected));
}

TEST(TopK, NumbersWinOverNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  const Plan plan =
      plan_of(*selector("topk", kTwo), matrix({{nan, -inf, nan, 1}, {nan, nan, nan, nan}}));
  const at::Tensor expected = torch::tensor({0, 1, 0, 1, 1, 1, 0, 0}).view({2, 4}).to(at::kBool);
  EXPECT_TRUE(testing::dense_mask(plan).equal(expected));
}

TEST(TopK, RefusesAnImpossibleK) {
  for (const double k : {0.0, 1.5, 5.0})
    EXPECT_THROW(selector("topk", {.d_model = 4, .experts = 4, .k = k}), Error) << k;
}

TEST(Relu, TakesPositiveLogitsAsWeights) {
  const at::Tensor z = logits().requires_grad_();
  const Plan plan = plan_of(*selector("relu", kOne), z);
  expect_near(dense_weights(plan),
              {{1.0, 0.5, 0, 0.2}, {0, 0.4, 0.9, 0.1}, {0.3, 0, 0.8, 0.6}, {2.0, 0, 0, 0}});
  EXPECT_DOUBLE_EQ(sparsity(plan), 1 - 10 / 16.);
  plan.weight.sum().backward();
  EXPECT_TRUE(z.grad().equal((logits() > 0).to(at::kDouble)));
}

TEST(Relu, KeepsNaNInThePlan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Plan plan = plan_of(*selector("relu", kOne), matrix({{nan, -1, 1, -1}}));
  EXPECT_EQ(plan.assignments(), 2);
  EXPECT_TRUE(plan.weight.isnan().any().item<bool>());
}

TEST(Relu, TakesAtMostSoManyOfTheHighest) {
  const Plan plan = plan_of(*selector("relu", kTwo, {{"most", std::int64_t{2}}}), logits());
  expect_near(dense_weights(plan),
              {{1.0, 0.5, 0, 0}, {0, 0.4, 0.9, 0}, {0, 0, 0.8, 0.6}, {2.0, 0, 0, 0}});
  const RouterShape halves{.d_model = 4, .experts = 4, .k = 2, .granularity = 2};
  EXPECT_TRUE(
      dense_weights(plan_of(*selector("relu", halves, {{"most", std::int64_t{1}}}), logits()))
          .equal(dense_weights(plan)));
}

TEST(Relu, KeepsNaNInACappedPlan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto part = selector("relu", kTwo, {{"most", std::int64_t{2}}});
  const Plan plan = plan_of(*part, matrix({{nan, nan, nan, nan}, {nan, -1, 1, -1}}));
  EXPECT_TRUE(plan.weight.isnan().any().item<bool>());
}

TEST(Relu, RefusesAnImpossibleCap) {
  const RouterShape four{.d_model = 4, .experts = 4, .k = 2};
  EXPECT_THROW(selector("relu", four, {{"most", std::int64_t{5}}}), Error);
  EXPECT_THROW(selector("relu", four, {{"most", std::int64_t{1}}}), Error);
  EXPECT_NO_THROW(selector("relu", four, {{"most", std::int64_t{4}}}));
}

/// Expert 1 has no token: the two nearest ones are computed for it, and change no output.
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
  // Outside training, and where every expert has a token, nothing leaks.
  EXPECT_EQ(part->select({.logits = z}, {}).assignments(), 5);
  EXPECT_EQ(part->select({.logits = z.abs()}, kTraining).assignments(), 11);
  // A cap leaves experts idle that have positive logits.
  const Options capped = {
      {"leak", 0.5}, {"leak_tokens", std::int64_t{1}}, {"most", std::int64_t{1}}};
  const Plan of_cap = selector("relu", three, capped)
                          ->select({.logits = matrix({{2, 1, -1}, {3, 0.5, -2}})}, kTraining);
  EXPECT_TRUE(dense_weights(of_cap).equal(matrix({{2, 0, 0}, {3, 0, 0}})));
  EXPECT_EQ(of_cap.assignments(), 4);
}

TEST(Relu, OpensAnIdleExpertThatWouldHelp) {
  for (const double leak : {0.0, 0.5}) {
    at::Tensor z = matrix({{-0.5}}).requires_grad_();
    const auto part = selector("relu", {.d_model = 1, .experts = 1, .k = 1}, {{"leak", leak}});
    for (int step = 0; step < 60; ++step) {
      const at::Tensor gate = part->select({.logits = z}, kTraining).weight.sum();
      const at::Tensor loss = (gate - 1).square() + 0 * z.sum();  // also where no gate is open
      const at::Tensor gradient = torch::autograd::grad({loss}, {z})[0];
      z = (z - 0.05 * gradient).detach().requires_grad_();
    }
    EXPECT_NEAR(z.item<double>(), leak > 0 ? 1 : -0.5, 0.1) << leak;
  }
}

TEST(ExpertChoice, EveryExpertTakesItsBestTokens) {
  expect_near(dense_weights(plan_of(*selector("expert-choice", kTwo), logits())),
              {{0.42948105406904, 0.260493427058572, 0, 0},
               {0, 0.268643122468705, 0.442917630241454, 0.199015719985647},
               {0, 0, 0.39053397262892, 0.319742173513011},
               {0.789136836856084, 0, 0, 0}});
}

TEST(Hash, TakesTheTokenIdModE) {
  RoutingContext context;
  context.token_ids = torch::tensor({5, 0, 4, 11}, at::kLong);
  const Plan plan = plan_of(*selector("hash", kOne), at::zeros({4, 4}, at::kDouble), context);
  expect_near(dense_weights(plan), {{0, 1, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}});
  EXPECT_THROW(plan_of(*selector("hash", kOne), at::zeros({4, 4})), Error);
  EXPECT_THROW(plan_of(*selector("hash", kOne), at::zeros({3, 4}), context), Error);
}

TEST(Lory, SegmentsUseTheBlendOfTheOneBefore) {
  const auto lory = selector("lory", kOne, {{"segment_length", std::int64_t{2}}});
  RoutingContext context{.training = true};
  context.sequence_length = 4;  // 2 sequences of 2 segments
  const at::Tensor hidden = torch::arange(16, at::kDouble).view({8, 2});
  expect_near(lory->rows(hidden, context), {{1, 2}, {5, 6}, {9, 10}, {13, 14}});
  const at::Tensor z = logits().requires_grad_();
  const Plan plan = plan_of(*lory, z, context);
  expect_near(plan.merge_weights.detach(),
              {{0.42948105406904, 0.260493427058572, 0.117047241739573, 0.192978277132814},
               {0.42948105406904, 0.260493427058572, 0.117047241739573, 0.192978277132814},
               {0.236870828058814, 0.0528530257992544, 0.39053397262892, 0.319742173513011},
               {0.236870828058814, 0.0528530257992544, 0.39053397262892, 0.319742173513011}});
  // The first segment of a sequence passes no gradient.
  plan.merge_weights.slice(0, 0, 4, 2).select(1, 0).sum().backward();
  EXPECT_EQ(z.grad().abs().max().item<double>(), 0);
  context.sequence_length = 3;
  EXPECT_THROW(lory->rows(hidden, context), Error);
}

TEST(LoadBalance, SwitchFormAtTwoExperts) {
  EXPECT_NEAR(loss_of("load-balance", kTwo, {{"coefficient", 0.01}}, "topk"), 0.0103828399020734,
              1e-15);
}

TEST(LoadBalance, CountsOverRanksInGlobalScope) {
  // Two ranks with the same tokens but for the first expert, which only this one uses: counts
  // (2,0,1,1) + (0,2,1,1) over 4 + 4 tokens at k = 1.
  const at::Tensor z = matrix({{9, 0, 0, 0}, {9, 0, 0, 0}, {0, 0, 9, 0}, {0, 0, 0, 9}});
  RoutingContext context = kTraining;
  context.reduce = [](std::int64_t, const at::Tensor& mine) {
    return mine + torch::tensor({0, 2, 1, 1, 4}, mine.options());
  };
  const Plan plan = plan_of(*selector("topk", kOne), z);
  const at::Tensor mean = z.softmax(1).mean(0);
  const auto expected = [&](std::vector<double> fraction) {
    return 4 * 0.5 * mean.dot(torch::tensor(fraction, at::kDouble)).item<double>();
  };
  const auto loss = [&](const char* scope) {
    return balancer("load-balance", kOne, {{"coefficient", 0.5}, {"scope", std::string(scope)}})
        ->balance({.logits = z}, plan, context)
        .loss.item<double>();
  };
  EXPECT_NEAR(loss("global"), expected({.25, .25, .25, .25}), 1e-12);
  EXPECT_NEAR(loss("micro-batch"), expected({.5, 0, .25, .25}), 1e-12);
}

TEST(LoadBalance, TakesDevicesThatDivideTheExpertsAndOnlyWithTheirScope) {
  const auto refusal = [](const char* scope, std::int64_t devices) -> std::string {
    try {
      balancer("load-balance", kOne, {{"scope", std::string(scope)}, {"devices", devices}});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("device", 2), "accepted");
  EXPECT_EQ(refusal("device", 4), "accepted");
  EXPECT_EQ(refusal("device", 3),
            "model.router.load-balance.devices = 3 cannot divide 4 experts into groups of equal "
            "size; set it to the number of devices that are to hold them (parallel.expert)");
  EXPECT_TRUE(refusal("device", 0).starts_with("model.router.load-balance.devices = 0"));
  EXPECT_EQ(refusal("global", 2),
            "model.router.load-balance.devices = 2 is for scope = \"device\"; leave it away");
}

TEST(ZLoss, MeanSquaredLogSumExp) {
  EXPECT_NEAR(loss_of("z-loss", kTwo, {{"coefficient", 0.001}}, "topk"), 0.00359388254979675,
              1e-15);
}

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

/// Without λ, beside a loss that is 0.5 times it, and in a hold that has no λ yet.
TEST(AdaptiveL1, LogsTheRegulariserByItself) {
  const auto logged = [](Options options) {
    options.insert({"initial", 0.5});
    const RouterShape shape{.d_model = 4, .experts = 4, .k = 1, .layers = 5};
    const at::Tensor z = logits();
    const auto relu = selector("relu", shape);
    const BalancerOutput out = balancer("adaptive-l1", shape, options)
                                   ->balance({.logits = z}, plan_of(*relu, z), kTraining);
    EXPECT_FALSE(out.statistics.at("l_reg").requires_grad());
    return out.statistics.at("l_reg").item<double>();
  };
  EXPECT_NEAR(logged({}), 4.45, 1e-12);
  EXPECT_NEAR(logged({{"load_balanced", false}}), 1.7, 1e-12);
  EXPECT_NEAR(logged({{"layers", std::string("mean")}}), 4.45 / 5, 1e-12);
  EXPECT_NEAR(logged({{"controller", std::string("hold")}}), 4.45, 1e-12);
}

TEST(AdaptiveL1, AddsAConstantToEachPositiveGatesGradient) {
  const at::Tensor z = logits().requires_grad_();
  const auto relu = selector("relu", kOne);
  balancer("adaptive-l1", kOne, {{"initial", 0.5}})
      ->balance({.logits = z}, plan_of(*relu, z), kTraining)
      .loss.backward();
  expect_near(z.grad(),
              {{.375, .25, 0, .375}, {0, .25, .25, .375}, {.375, 0, .25, .375}, {.375, 0, 0, 0}});
}

/// λ after a schedule of sparsities, at target 1 − 1/4 = 0.75, from 1 with factor 2.
double lambda_after(const std::vector<double>& schedule, Options options) {
  options.insert({{"initial", 1.0}, {"factor", 2.0}});
  const auto l1 = balancer("adaptive-l1", kOne, options);
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
  const auto l1 = balancer("adaptive-l1", kOne, {});
  ASSERT_TRUE(l1->named_buffers().contains("lambda"));
  EXPECT_EQ(l1->named_buffers()["lambda"].scalar_type(), at::kFloat);
  l1->after_step({.sparsity = 0});
  EXPECT_FLOAT_EQ(l1->state().at("lambda"), 1e-8F * 1.2F);
}

}  // namespace
}  // namespace penstock
