// The shift of the logits as a balancer of its own: its start, the routers that accept it, and its
// effect on a ReLU.
#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/routers/resolve.h"
#include "penstock/routers/router.h"
#include "tests/base/error_of.h"
#include "tests/routers/counted.h"

namespace penstock::testing {
namespace {

const Options kAtTarget = {{"start", std::string("target")}};

/// If all experts are wanted, the starting shift is finite, and no step makes it infinite.
TEST(Threshold, AllExpertsAreATarget) {
  const RouterShape shape{.d_model = 4, .experts = 2, .k = 2};
  const auto part = balancer("threshold", shape, kAtTarget);
  part->start(0, {.weight = at::ones({2, 4})});
  EXPECT_NEAR(part->choice_bias(0)[0].item<double>(), 2 * 4.7534, 1e-3);  // Φ⁻¹(1 − 1e-6) = 4.7534
  StepCounts counts;
  counts.add(0, std::vector<std::int64_t>{100, 100}, 100);
  part->after_step(counts.take());
  EXPECT_NEAR(part->choice_bias(0)[1].item<double>(), 2 * 4.7534, 1e-3);
}

/// With the starting shift, tokens of random directions activate k experts on average.
TEST(Threshold, StartsAtTheTarget) {
  const ResolvedRouter router = resolve({.method = "remoe",
                                         .balancers = std::vector<std::string>{"threshold"},
                                         .parts = {{"threshold", node(kAtTarget)}}});
  for (const double k : {1.0, 2.5, 12.0}) {
    const RouterShape shape{.d_model = 64, .experts = 16, .k = k};
    const auto balancers = make_balancers(router, shape);
    Router made(router, shape, balancers);
    made.initialize(0.05, InitialDraws(3));
    const at::Tensor hidden = at::randn({20000, 64}, at::detail::createCPUGenerator(1),
                                        at::TensorOptions().dtype(at::kFloat));
    const Plan plan = made.route(hidden, {}).plan;
    EXPECT_NEAR(static_cast<double>(plan.assignments()) / 20000 / k, 1, 0.03) << k;
    // One shift for all experts would give more tokens to the rows of larger norm.
    const at::Tensor counts = expert_counts(plan).to(at::kDouble);
    EXPECT_LT(counts.std().div(counts.mean()).item<double>(), 0.05) << k;
  }
}

TEST(Threshold, NamesTheScorerWhoseLogitsAreNotKnown) {
  const auto error_of = [](const Options& options) -> std::string {
    return error_or("", [&] {
      resolve({.method = "remoe",
               .scorer = "mlp",
               .balancers = std::vector<std::string>{"threshold"},
               .parts = {{"threshold", node(options)}}});
    });
  };
  expect_says(error_of(kAtTarget), {"scorer 'mlp' is not one matrix"});
  EXPECT_EQ(error_of({}), "");
}

/// The shift changes ReLU's gates, but not top-k's gates.
TEST(Threshold, ShiftsTheGatesOfRelu) {
  const auto relu = selector("relu", {.d_model = 2, .experts = 2, .k = 1});
  const at::Tensor logits = matrix({{0.5, -0.25}, {-1.0, 0.25}});
  const Scores scores{.logits = logits, .choice_bias = torch::tensor({0.5, -0.25})};
  EXPECT_TRUE(dense_weights(relu->select(scores, {})).equal(matrix({{1.0, 0.0}, {0.0, 0.0}})));
  EXPECT_TRUE(dense_weights(relu->select(scores, {.logit_shift = 0.5}))
                  .equal(matrix({{1.5, 0.0}, {0.0, 0.5}})));
}

/// The bias counts in the capped choice and in the gates: 0.5 + 0.5, 0.75 - 0.25 and 0.25 + 1.
TEST(Threshold, ShiftsTheChoiceOfACappedRelu) {
  const auto relu =
      selector("relu", {.d_model = 2, .experts = 3, .k = 1}, {{"most", std::int64_t{2}}});
  const Scores scores{.logits = matrix({{0.5, 0.75, 0.25}, {-1.0, 0.125, -1.5}}),
                      .choice_bias = torch::tensor({0.5, -0.25, 1.0})};
  EXPECT_TRUE(
      dense_weights(relu->select(scores, {})).equal(matrix({{1.0, 0.0, 1.25}, {0.0, 0.0, 0.0}})));
}

TEST(Threshold, OnlyRoutersOfSignsTakeAShift) {
  const ResolvedRouter router = resolve({.method = "topk", .k = 1});
  const RouterShape shape{.d_model = 2, .experts = 4, .k = 1};
  Router made(router, shape, make_balancers(router, shape));
  made.initialize(0.02, InitialDraws(1));
  EXPECT_THROW(made.route(at::ones({3, 2}), {.logit_shift = 0.1}), Error);
}

}  // namespace
}  // namespace penstock::testing
