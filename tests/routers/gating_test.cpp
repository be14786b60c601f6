// Capacity, GShard's second expert, THOR's draws and the CV² losses, against the numbers of
// gating.py, which follows the published algorithms token by token.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/routers/resolve.h"
#include "penstock/routers/router.h"
#include "penstock/routers/selectors/capacity.h"
#include "tests/routers/gating_expected.h"
#include "tests/routers/parts.h"

namespace penstock::testing {
namespace {

RouterShape shape(double k) { return {.d_model = 4, .experts = 4, .k = k}; }

at::Tensor table(const std::vector<double>& numbers) {
  return torch::tensor(numbers, at::kDouble).view({8, 4});
}

/// A context for training with the draws of seed 5, or for evaluation.
RoutingContext context(bool training) {
  RoutingContext context{.training = training};
  context.generator = at::detail::createCPUGenerator(5);
  return context;
}

Plan plan_of(const std::string& name, double k, const at::Tensor& logits, const Options& options,
             bool training) {
  const auto part = selector(name, shape(k), options);
  const RoutingContext now = context(training);
  Plan plan = part->select({.logits = logits}, now);
  plan.k = part->nominal_k(now);
  return plan;
}

void expect_gradient(const at::Tensor& objective, const at::Tensor& leaf,
                     const std::vector<double>& expected, const char* what) {
  const at::Tensor actual =
      torch::autograd::grad({objective}, {leaf}, {}, /*retain_graph=*/true)[0];
  EXPECT_LT(farthest(actual, table(expected)), 1e-12) << what;
}

void expect_case(const std::string& name, const CapacityCase& expected, Options options,
                 bool training) {
  SCOPED_TRACE(concat(name, " k = ", expected.k, ", capacity ", expected.capacity));
  const double elsewhere = 100;                                // the other mode's capacity
  const double capacity = std::max(expected.capacity, 1e-12);  // 0 is refused
  options["capacity"] = training ? capacity : elsewhere;
  options["eval_capacity"] = training ? elsewhere : capacity;
  const at::Tensor logits = table(kLogits).requires_grad_();
  const Plan plan = plan_of(name, static_cast<double>(expected.k), logits, options, training);
  EXPECT_LT(farthest(dense_weights(plan), table(expected.weights)), 1e-12) << dense_weights(plan);
  EXPECT_TRUE(plan.demand.equal(torch::tensor(expected.demand, at::kLong))) << plan.demand;
  EXPECT_EQ(plan.overflow, expected.overflow);
  const auto balance = balancer("load-balance", shape(2), {{"coefficient", 1.0}});
  const at::Tensor loss = balance->balance({.logits = logits}, plan, context(true)).loss;
  EXPECT_NEAR(loss.item<double>(), expected.balance_loss, 1e-12);
  const at::Tensor probe = table(kWeightProbe).index({plan.token, plan.expert});
  expect_gradient((plan.weight * probe).sum(), logits, expected.weights_grad, "of the weights");
  expect_gradient(loss, logits, expected.balance_grad, "of the loss");
}

TEST(TopKCapacity, EarlierTokensFillTheirExpertsFirst) {
  for (const bool training : {true, false})
    for (const CapacityCase& expected : kTopKCapacity)
      expect_case("topk-capacity", expected,
                  {{"softmax", std::string(expected.after ? "after" : "before")}}, training);
}

TEST(KOfTheContext, MakesTheSelectorOneWithThatK) {
  const auto same = [](const std::string& name, const RouterShape& trained, double k,
                       const Options& options) {
    const RouterShape wanted = shape(k);
    const at::Tensor logits = table(kLogits);
    RoutingContext now = context(false);
    const auto expected = selector(name, wanted, options);
    const at::Tensor weights = dense_weights(expected->select({.logits = logits}, now));
    now.k = static_cast<std::int64_t>(k);
    const auto part = selector(name, trained, options);
    EXPECT_EQ(part->nominal_k(now), k);
    EXPECT_TRUE(dense_weights(part->select({.logits = logits}, now)).equal(weights))
        << name << " k = " << k;
  };
  for (const char* softmax : {"before", "after"})
    for (const double k : {1, 2, 3, 4})
      for (const char* name : {"topk", "topk-capacity"})
        same(name, shape(2), k, {{"softmax", std::string(softmax)}});
  same("gshard", shape(1), 2, {});
  same("gshard", shape(2), 1, {});
  const auto gshard = selector("gshard", shape(2));
  EXPECT_THROW(gshard->select({.logits = table(kLogits)}, {.k = 3}), Error);
}

TEST(TopKCapacity, WithCapacityForAllItIsTopK) {
  for (const std::string softmax : {"before", "after"}) {
    const Plan capped = plan_of("topk-capacity", 2, table(kLogits),
                                {{"capacity", 9.0}, {"softmax", softmax}}, true);
    const Plan plain = plan_of("topk", 2, table(kLogits), {{"softmax", softmax}}, true);
    EXPECT_TRUE(dense_mask(capped).equal(dense_mask(plain)));
    EXPECT_TRUE(at::allclose(dense_weights(capped), dense_weights(plain), 1e-12, 1e-14));
    EXPECT_EQ(capped.overflow, 0);
  }
}

TEST(GShard, FirstChoicesGoBeforeSecondOnes) {
  for (const CapacityCase& expected : kGShardEvaluation) expect_case("gshard", expected, {}, false);
}

TEST(GShard, SecondExpertsAreDrawnByTheirGates) {
  for (const CapacityCase& expected : kGShardTraining) {
    expect_case("gshard", expected, {}, true);
    expect_case("gshard", expected, {{"random_eval", true}}, false);
  }
  const Options capacity{{"capacity", 9.0}, {"eval_capacity", 9.0}};
  EXPECT_EQ(plan_of("gshard", 2, table(kLogits), capacity, false).assignments(), 16);
  EXPECT_LT(plan_of("gshard", 2, table(kLogits), capacity, true).assignments(), 16);
}

TEST(GShard, AtOneExpertItIsTheFirstAlone) {
  const at::Tensor logits = table(kLogits).requires_grad_();
  const Plan plan = plan_of("gshard", 1, logits, {{"capacity", 9.0}}, true);
  EXPECT_TRUE(plan.weight.detach().equal(torch::ones({8}, at::kDouble)));
  EXPECT_TRUE(dense_mask(plan).equal(dense_mask(plan_of("topk", 1, table(kLogits), {}, true))));
  const at::Tensor probe = table(kWeightProbe).index({plan.token, plan.expert});
  expect_gradient((plan.weight * probe).sum(), logits, std::vector<double>(32), "of a constant");
  EXPECT_THROW(selector("gshard", shape(3)), Error);
}

TEST(Capacity, RoundsUpButNotByTheErrorOfAProduct) {
  EXPECT_EQ(expert_capacity(1.25, 1, 8, 4), 3);   // 2.5
  EXPECT_EQ(expert_capacity(1.1, 1, 10, 1), 11);  // 1.1 · 10 rounds to a double above 11
  EXPECT_EQ(expert_capacity(1, 2, 1, 64), 1);
  EXPECT_EQ(expert_capacity(0, 2, 8, 4), 0);
  EXPECT_EQ(expert_capacity(1, 2, 0, 4), 0);
}

TEST(Router, SaysHowManyAssignmentsExceedTheCapacity) {
  const ResolvedRouter resolved =
      resolve({.scorer = "linear",
               .selector = "topk-capacity",
               .balancers = std::vector<std::string>{},
               .parts = {{"topk-capacity", node({{"capacity", 1e-12}})}}});
  Router router(resolved, shape(2), {});
  const RoutingResult none = router.route(torch::randn({8, 4}), {.training = true});
  EXPECT_EQ(none.statistics.at("overflow").item<double>(), 2);  // assignments per token
  EXPECT_EQ(none.plan.assignments(), 0);
}

TEST(Thor, OneExpertForThePassWhenTraining) {
  const auto thor = selector("thor", shape(1));
  std::vector<int> picked(4);
  for (int seed = 0; seed < 400; ++seed) {
    RoutingContext now{.training = true};
    now.generator = at::detail::createCPUGenerator(seed);
    const Plan plan = thor->select({.logits = at::zeros({8, 4})}, now);
    const at::Tensor counts = expert_counts(plan);
    ASSERT_EQ(counts.max().item<std::int64_t>(), 8);
    ASSERT_EQ(plan.assignments(), 8);
    ++picked[static_cast<std::size_t>(counts.argmax().item<std::int64_t>())];
    EXPECT_EQ(plan.weight.min().item<float>(), 1);
  }
  for (const int times : picked) EXPECT_NEAR(times, 100, 40);  // 4.6 standard deviations
}

TEST(Thor, DrawsByTokenSequenceOrBatchOutsideTraining) {
  const auto experts = [](const char* inference, std::int64_t layer = 0) {
    RouterShape where = shape(1);
    where.layer = layer;
    RoutingContext now;
    now.sequence_length = 16;
    const Plan plan = selector("thor", where, {{"inference", std::string(inference)}})
                          ->select({.logits = at::zeros({64, 4})}, now);
    return dense_mask(plan).to(at::kLong).argmax(1).view({4, 16});
  };
  const at::Tensor token = experts("token"), sequence = experts("sequence"),
                   batch = experts("batch");
  EXPECT_TRUE(token.equal(experts("token")));  // repeats without a generator
  EXPECT_FALSE(token.equal(experts("token", 1)));
  EXPECT_FALSE(token.eq(token.select(1, 0).unsqueeze(1)).all().item<bool>());
  EXPECT_TRUE(sequence.eq(sequence.select(1, 0).unsqueeze(1)).all().item<bool>());
  EXPECT_FALSE(sequence.eq(sequence[0][0]).all().item<bool>());
  EXPECT_TRUE(batch.eq(batch[0][0]).all().item<bool>());
  EXPECT_EQ(selector_registry().at("thor").traits.forward_passes, 2);
}

void expect_variation(const std::string& name, const VariationCase& expected) {
  SCOPED_TRACE(concat(name, " k = ", expected.k));
  const at::Tensor clean = table(kLogits).requires_grad_(), scale = table(kScale).requires_grad_();
  const at::Tensor noisy = clean + table(kNoise) * scale;
  Plan plan =
      selector("topk", shape(static_cast<double>(expected.k)), {{"softmax", std::string("after")}})
          ->select({.logits = noisy}, context(true));
  plan.k = static_cast<double>(expected.k);
  const BalancerOutput out =
      balancer(name, shape(plan.k), {{"coefficient", 0.5}})
          ->balance({.logits = noisy, .clean_logits = clean, .noise_scale = scale}, plan,
                    context(true));
  EXPECT_NEAR(out.loss.item<double>(), 0.5 * expected.loss, 1e-12);
  out.loss.backward();
  EXPECT_LT(farthest(clean.grad() * 2, table(expected.clean_grad)), 1e-12);
  EXPECT_LT(farthest(scale.grad() * 2, table(expected.scale_grad)), 1e-12);
}

TEST(Load, EvensOutTheChanceOfBeingChosen) {
  for (const VariationCase& expected : kLoad) expect_variation("load", expected);
}

TEST(Load, WithEveryExpertChosenThereIsNothingToEvenOut) {
  const at::Tensor clean = table(kLogits), scale = table(kScale);
  Plan plan = plan_of("topk", 4, clean, {}, true);
  const auto loss = balancer("load", shape(4))
                        ->balance({.logits = clean, .clean_logits = clean, .noise_scale = scale},
                                  plan, context(true))
                        .loss;
  EXPECT_EQ(loss.item<double>(), 0);
}

TEST(Importance, EvensOutTheSumsOfGates) {
  for (const VariationCase& expected : kImportance) expect_variation("importance", expected);
}

TEST(Importance, OfOneExpertIsZero) {
  const RouterShape one{.d_model = 4, .experts = 1};
  const at::Tensor logits = at::ones({3, 1}, at::kDouble);
  const Plan plan = selector("topk", one)->select({.logits = logits}, {});
  EXPECT_EQ(balancer("importance", one)->balance({.logits = logits}, plan, {}).loss.item<double>(),
            0);
}

}  // namespace
}  // namespace penstock::testing
