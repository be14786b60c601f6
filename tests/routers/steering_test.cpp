// What steers the number of active experts of ReLU routing: λ's two controllers, a λ for each
// layer, and the shift of the logits. Expected numbers are worked out by hand from the formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "penstock/base/error.h"
#include "tests/routers/parts.h"

namespace penstock::testing {
namespace {

constexpr RouterShape kTwoLayers{.d_model = 3, .experts = 8, .k = 2, .layers = 2};

const Options kAtTarget = {{"start", std::string("target")}};

/// 100 tokens a layer, of which each layer's experts get these.
StepStatistics counted(const std::vector<std::vector<std::int64_t>>& counts) {
  StepCounts out;
  for (std::size_t layer = 0; layer < counts.size(); ++layer)
    out.add(static_cast<std::int64_t>(layer), counts[layer], 100);
  return out.take();
}

/// 8 experts with `each` tokens, but for the last.
std::vector<std::int64_t> loads(std::int64_t each, std::int64_t last) {
  std::vector<std::int64_t> out(8, each);
  out.back() = last;
  return out;
}

at::Tensor buffer(const std::shared_ptr<Balancer>& part, const char* name) {
  return part->named_buffers()[name];
}

TEST(StepStatistics, CountsExpertsPerTokenOfEachLayer) {
  const StepStatistics step = counted({loads(25, 25), loads(10, 30), {}});
  EXPECT_EQ(step.active(0), 2.0);
  EXPECT_EQ(step.active(1), 1.0);
  EXPECT_EQ(step.active(2), 0);  // its plans merge
  EXPECT_EQ(step.active(7), 0);
  EXPECT_EQ(step.tokens, (std::vector<std::int64_t>{100, 100, 0}));
  EXPECT_DOUBLE_EQ(step.sparsity, 1 - 300 / 1600.0);
}

/// A layer in which no expert is on has counts, which ranks' sums must keep.
TEST(StepStatistics, ALayerWithoutAssignmentsOutlivesSums) {
  StepCounts counts;
  counts.add(0, loads(25, 25), 100);
  counts.add(1, loads(0, 0), 100);
  counts.sum_with([](const at::Tensor& numbers) { numbers.mul_(2); }, kTwoLayers);
  const StepStatistics step = counts.take();
  EXPECT_EQ(step.expert_tokens[1], loads(0, 0));
  EXPECT_EQ(step.tokens, (std::vector<std::int64_t>{200, 200}));
  EXPECT_EQ(step.active(0), 2.0);
  EXPECT_DOUBLE_EQ(step.sparsity, 1 - 400 / 3200.0);
}

TEST(AdaptiveL1, ThePapersRuleMovesByTheWholeFactor) {
  const auto part = balancer("adaptive-l1", kTwoLayers, {{"initial", 0.5}, {"factor", 1.25}});
  part->after_step({.sparsity = 0.74});
  EXPECT_EQ(part->state().at("lambda"), 0.625);
  part->after_step({.sparsity = 0.99});
  part->after_step({.sparsity = 0.75});  // at the target: the authors' code divides
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
  EXPECT_NEAR(at(4), 0.5, 1e-7);   // twice the target: half of the width, 4^(1/2)
  EXPECT_NEAR(at(8), 2.0, 1e-6);   // at the width: 4
  EXPECT_NEAR(at(2), 2.0, 1e-6);   // at the target
  EXPECT_NEAR(at(1), 1.0, 1e-6);   // half of the target: 4^(-1/2)
  EXPECT_NEAR(at(0), 0.25, 1e-6);  // none: beyond the width
}

/// The loss feels an error at once, by its `damping`-th power; λ itself does not show that.
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

/// `steering` of the unit that a layer is, or the model: its gain.
double gain(const std::shared_ptr<Balancer>& part, std::int64_t unit = 0) {
  return buffer(part, "steering")[unit][0].item<double>();
}

/// Numbers of logit_shift.py.
TEST(LogitShift, FollowsTheErrorOfTheLayerWithAGainThatErrorsMove) {
  const auto part = balancer("threshold", kTwoLayers,
                             {{"rate", 0.5}, {"revive", 0.0}, {"by", std::string("layer")}});
  const std::vector<std::int64_t> first{50, 37, 20, 30, 25, 0}, second{20, 15, 30, 100, 30, 25};
  const std::vector<double> shifts{-0.5, -1.06414, -1.218129, -1.777967, -2.277967, -1.442697};
  const std::vector<double> gains{0.5, 0.623038, 0.732622, 0.82049, 1, 0.83527};
  const std::vector<double> others{0.144905, 0.587777, 0.558907, -0.064233, -0.412864, -0.648212};
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<std::int64_t> counts = loads(first[i], first[i]);
    if (i == 1) counts = loads(37, 41);  // 300
    part->after_step(counted({counts, loads(second[i], second[i])}));
    EXPECT_NEAR(part->choice_bias(0)[3].item<double>(), shifts[i], 2e-6) << i;
    EXPECT_NEAR(part->choice_bias(1)[3].item<double>(), others[i], 2e-6) << i;
    EXPECT_NEAR(gain(part), gains[i], 2e-6) << i;
    EXPECT_NEAR(part->state().at("threshold_shift"), (shifts[i] + others[i]) / 2, 2e-6);
  }
  const at::Tensor before = buffer(part, "bias").clone();
  part->after_step(counted({loads(50, 50), {}}));  // nothing was routed in the second layer
  EXPECT_TRUE(part->choice_bias(1).equal(before[1]));
  EXPECT_LT(part->choice_bias(0)[0].item<double>(), before[0][0].item<double>());
}

TEST(LogitShift, RaisesExpertsThatHaveHardlyAToken) {
  const auto part = balancer("threshold", kTwoLayers, {{"rate", 0.5}, {"revive", 0.1}});
  std::vector<std::int64_t> at_target = loads(28, 2);  // 198 of the 200 due, the last has 0.08
  at_target[0] = 30;
  part->after_step(counted({at_target, loads(25, 25)}));
  EXPECT_NEAR(part->choice_bias(0)[7].item<double>(), 0.05, 1e-6);
  EXPECT_NEAR(part->choice_bias(0)[0].item<double>(), 0, 1e-6);
  EXPECT_NEAR(part->choice_bias(1)[7].item<double>(), 0, 1e-6);
}

TEST(LogitShift, HoldsTheModelOrEachExpertWhereAsked) {
  const auto moved = [](const char* by) {
    const auto part = balancer("threshold", kTwoLayers,
                               {{"rate", 1.0}, {"revive", 0.0}, {"by", std::string(by)}});
    part->after_step(counted({loads(40, 20), loads(10, 30)}));
    return buffer(part, "bias");
  };
  // The model: 400 of 400, no error. An expert: against 25 tokens.
  EXPECT_EQ(moved("model").count_nonzero().item<std::int64_t>(), 0);
  const at::Tensor by_expert = moved("expert");
  EXPECT_NEAR(by_expert[0][0].item<double>(), -(std::log(1.6) + 0.6 / 3), 1e-6);
  EXPECT_NEAR(by_expert[0][7].item<double>(), -(std::log(0.8) - 0.2 / 3), 1e-6);
  EXPECT_NEAR(by_expert[1][0].item<double>(), 1, 1e-6);  // ln 0.4 - 0.6/3 is below -1
}

/// A steering that stops anywhere and goes on with the saved buffers is the same, bit for bit.
TEST(LogitShift, GoesOnFromItsBuffers) {
  for (const char* const name : {"threshold", "adaptive-l1"}) {
    const bool holds = name == std::string("adaptive-l1");
    const auto made = [&] {
      return holds ? balancer(name, kTwoLayers,
                              {{"controller", std::string("hold")},
                               {"dense_steps", std::int64_t{2}},
                               {"ramp_steps", std::int64_t{3}}})
                   : balancer(name, kTwoLayers);
    };
    const auto through = made();
    auto in_parts = made();
    for (int step = 0; step < 12; ++step) {
      const StepStatistics counts = counted({loads(50 - 3 * step, 0), loads(20 + step, 7)});
      through->after_step(counts);
      in_parts->after_step(counts);
      const auto next = made();
      for (const auto& item : in_parts->named_buffers())
        next->named_buffers()[item.key()].copy_(item.value());
      in_parts = next;
      for (const auto& item : through->named_buffers())
        EXPECT_TRUE(item.value().equal(buffer(in_parts, item.key().c_str()))) << item.key();
    }
    EXPECT_NE(through->choice_bias(0)[0].item<double>(), 0);
  }
}

std::shared_ptr<Balancer> holding(std::int64_t dense, std::int64_t ramp, double strength = 0.01) {
  return balancer("adaptive-l1", kTwoLayers,
                  {{"controller", std::string("hold")},
                   {"revive", 0.0},
                   {"strength", strength},
                   {"dense_steps", dense},
                   {"ramp_steps", ramp}});
}

/// Numbers of logit_shift.py: from 4 experts a token to 2 in four steps, after two without a shift.
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

/// Outside training: the step's own shift while the target is on its way, then the running mean,
/// here of (b₁), (b₁ + b₂)/2 and, at a weight of a half, (b₁ + b₂)/4 + b₃/2.
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

/// The router asks for the one in training and for the other outside.
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
  const at::Tensor hidden = at::zeros({3, 2});  // logits 0: gates are the shift
  EXPECT_TRUE(made.route(hidden, {.training = true}).plan.weight.eq(1).all().item<bool>());
  EXPECT_TRUE(made.route(hidden, {}).plan.weight.eq(2).all().item<bool>());
}

/// strength·g/L·Σ_e f_e Σ_t R_te / Σ_te R_te; none while the shift opens experts.
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
  EXPECT_FALSE(of_scale(1).loss.defined());  // no shift yet
  buffer(part, "bias").fill_(-0.06);         // mean gate 0.3
  EXPECT_NEAR(loss(1), 0.5 * 0.2 / 2 * (4 * 1 + 1 * 0.5) / 1.5, 1e-7);
  const double lambda = 0.5 * 0.2 / 2 / (1.5 / 4);
  EXPECT_NEAR(of_scale(1).statistics.at("lambda").item<double>(), lambda / 2, 1e-7);  // of 2 layers
  EXPECT_NEAR(loss(0.1), 0.5 / 2 * 3, 1e-7);  // at most all of it
  EXPECT_NEAR(loss(1e-6), 0.5 / 2 * 3, 1e-6);
  buffer(part, "bias").fill_(0.01);
  EXPECT_FALSE(of_scale(1).loss.defined());
  EXPECT_EQ(of_scale(1).statistics.at("lambda").item<double>(), 0);
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

/// Where all experts are wanted the shift of the start is finite, and no step makes it less so.
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

/// The shift of the start, over tokens that point anywhere: as many experts as were asked for.
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
    // One for all would leave the rows of larger norm more tokens.
    const at::Tensor counts = expert_counts(plan).to(at::kDouble);
    EXPECT_LT(counts.std().div(counts.mean()).item<double>(), 0.05) << k;
  }
}

TEST(Threshold, NamesTheScorerWhoseLogitsAreNotKnown) {
  const auto error_of = [](const Options& options) -> std::string {
    try {
      resolve({.method = "remoe",
               .scorer = "mlp",
               .balancers = std::vector<std::string>{"threshold"},
               .parts = {{"threshold", node(options)}}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of(kAtTarget).find("scorer 'mlp' is not one matrix"), std::string::npos);
  EXPECT_EQ(error_of({}), "");
}

/// Gates of a ReLU know of the shift, those of top-k do not.
TEST(Threshold, ShiftsTheGatesOfRelu) {
  const auto relu = selector("relu", {.d_model = 2, .experts = 2, .k = 1});
  const at::Tensor logits = matrix({{0.5, -0.25}, {-1.0, 0.25}});
  const Scores scores{.logits = logits, .choice_bias = torch::tensor({0.5, -0.25})};
  EXPECT_TRUE(dense_weights(relu->select(scores, {})).equal(matrix({{1.0, 0.0}, {0.0, 0.0}})));
  EXPECT_TRUE(dense_weights(relu->select(scores, {.logit_shift = 0.5}))
                  .equal(matrix({{1.5, 0.0}, {0.0, 0.5}})));
}

/// The bias counts in a capped choice and in its gates: 0.5 + 0.5, 0.75 - 0.25 and 0.25 + 1.
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
