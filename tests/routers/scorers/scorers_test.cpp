// Scorers against the numbers of scorers.py, which knows only the formulas, and the scorers' noise
// and dropout in training.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "tests/routers/scorers/scorers_expected.h"

namespace penstock::testing {
namespace {

const RouterShape kShape{.d_model = 3, .experts = 5};

std::shared_ptr<Scorer> scorer(const std::string& name, const Options& options,
                               const RouterShape& shape = kShape) {
  auto made = scorer_registry().at(name).make(shape, node(options));
  made->to(at::kDouble);
  return made;
}

void set(Scorer& scorer, const Tensors& values) {
  torch::NoGradGuard no_grad;
  auto parameters = scorer.named_parameters();
  ASSERT_EQ(parameters.size(), values.size());
  for (const auto& [name, numbers] : values) {
    ASSERT_TRUE(parameters.contains(name)) << name;
    parameters[name].copy_(torch::tensor(numbers, at::kDouble).view(parameters[name].sizes()));
  }
}

at::Tensor hidden() { return torch::tensor(kHidden, at::kDouble).view({4, 3}); }
at::Tensor logits_of(const std::vector<double>& numbers) {
  return torch::tensor(numbers, at::kDouble).view({4, 5});
}

void expect_near(const at::Tensor& actual, const std::vector<double>& expected, const char* what) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.numel(), static_cast<std::int64_t>(expected.size())) << what;
  EXPECT_LT(farthest(actual.flatten(), torch::tensor(expected, at::kDouble)), 1e-12) << what;
}

/// Numbers kept per token. They were counted by hand and with PyTorch's hooks of saved tensors.
TEST(Scorers, WhatIsKeptOfATokenIsWhatTheForwardPassSaves) {
  const auto kept = [](const std::string& name, Options options) {
    return scorer(name, options)->kept_per_token();
  };
  using namespace std::string_literals;
  const std::int64_t six = 6, three = 3;
  // GELU keeps its input and its output; ReLU and tanh keep only their output.
  EXPECT_EQ(kept("mlp", {{"hidden", six}}), 6 + 6);
  EXPECT_EQ(kept("mlp", {{"hidden", six}, {"activation", "relu"s}}), 6);
  EXPECT_EQ(kept("mlp", {{"hidden", six}, {"activation", "tanh"s}}), 6);
  // The projection (3), its square and its length (2), the unit vector (3), the cosines of 5
  // experts.
  EXPECT_EQ(kept("cosine", {{"dimension", three}}), 3 + 2 + 3 + 5);
  EXPECT_EQ(kept("cosine", {{"dimension", three}, {"learn_temperature", false}}), 3 + 2 + 3);
  EXPECT_EQ(kept("cosine", {{"dimension", three}, {"normalise_token", false}}), 3 + 5);
}

TEST(Scorers, LogitsAndGradientsAreThoseOfTheScript) {
  for (const ScorerCase& expected : kScorerCases) {
    SCOPED_TRACE(expected.scorer);
    const auto actual = scorer(expected.scorer, expected.options);
    set(*actual, expected.parameters);
    const at::Tensor h = hidden().requires_grad_();
    const at::Tensor logits = actual->score(h, {}).logits;
    expect_near(logits.detach(), expected.logits, "logits");
    (logits * logits_of(kProbe)).sum().backward();
    expect_near(h.grad(), expected.hidden_grad, "hidden");
    for (const auto& parameter : actual->named_parameters()) {
      const auto found = expected.grads.find(parameter.key());
      if (found == expected.grads.end())
        EXPECT_FALSE(parameter.value().grad().defined()) << parameter.key();
      else
        expect_near(parameter.value().grad(), found->second, parameter.key().c_str());
    }
    torch::NoGradGuard inference;
    expect_near(actual->score(hidden(), {}).logits, expected.logits, "inference");
    expect_near(actual->score(hidden(), {}).logits, expected.logits, "inference again");
  }
}

TEST(Scorers, TheScriptHasACaseOfEveryScorer) {
  for (const auto& name : scorer_registry().names()) {
    const bool known = std::any_of(kScorerCases.begin(), kScorerCases.end(),
                                   [&](const ScorerCase& c) { return c.scorer == name; });
    EXPECT_TRUE(known || scorer_registry().at(name).traits.no_logits) << name;
  }
}

TEST(Scorers, TheFoldedFormIsWhatInferenceScores) {
  int folded = 0;
  for (const ScorerCase& expected : kScorerCases) {
    SCOPED_TRACE(expected.scorer);
    const auto actual = scorer(expected.scorer, expected.options);
    set(*actual, expected.parameters);
    if (!scorer_registry().at(expected.scorer).traits_under(node(expected.options)).foldable) {
      EXPECT_THROW(actual->fold(), AssertionError);
      continue;
    }
    const FoldedScorer router = actual->fold();
    EXPECT_FALSE(router.weight.requires_grad());
    at::Tensor logits = hidden().matmul(router.weight.t());
    if (router.bias.defined()) logits = logits + router.bias;
    expect_near(logits, expected.logits, "folded");
    ++folded;
  }
  EXPECT_GE(folded, 9);
}

/// A training context that draws from `seed`.
RoutingContext training(std::uint64_t seed) {
  RoutingContext context{.training = true};
  context.generator = at::detail::createCPUGenerator(seed);
  return context;
}

const ScorerCase& case_of(const std::string& name) {
  return *std::find_if(kScorerCases.begin(), kScorerCases.end(),
                       [&](const ScorerCase& c) { return c.scorer == name; });
}

TEST(NoisyLinear, NoiseHasTheScaleOfTheScript) {
  const ScorerCase& expected = case_of("noisy-linear");
  const auto noisy = scorer("noisy-linear", {});
  set(*noisy, expected.parameters);
  const Scores scores = noisy->score(hidden(), training(3));
  expect_near(scores.clean_logits.detach(), expected.logits, "clean");
  expect_near(scores.noise_scale.detach(), kNoiseScale, "scale");
  const at::Tensor draws = at::empty({4, 5}, at::kFloat)
                               .normal_(0, 1, at::detail::createCPUGenerator(3))
                               .to(at::kDouble);
  const at::Tensor noisy_logits = logits_of(expected.logits) + draws * logits_of(kNoiseScale);
  EXPECT_LT(farthest(scores.logits, noisy_logits), 1e-12);
}

TEST(NoisyLinear, StartsWithEvenChancesUnlessToldOtherwise) {
  const auto zeros = scorer("noisy-linear", {}),
             normal = scorer("noisy-linear", {{"init", std::string("normal")}});
  for (const auto& parts : {zeros, normal}) parts->initialize(0.5, InitialDraws(1));
  for (const auto& parameter : zeros->parameters())
    EXPECT_EQ(parameter.abs().max().item<double>(), 0);
  for (const auto& parameter : normal->parameters())
    EXPECT_GT(parameter.abs().min().item<double>(), 0);
}

TEST(JitterLinear, EveryEntryIsMultipliedByItsOwnFactor) {
  const auto jitter = scorer("jitter-linear", {{"epsilon", 0.25}});
  set(*jitter, case_of("jitter-linear").parameters);
  const at::Tensor u = at::empty({4, 3}, at::kFloat)
                           .uniform_(0, 1, at::detail::createCPUGenerator(3))
                           .to(at::kDouble);
  const at::Tensor expected = (hidden() * (0.75 + 0.5 * u)).matmul(jitter->fold().weight.t());
  EXPECT_LT(farthest(jitter->score(hidden(), training(3)).logits, expected), 1e-12);
}

TEST(Cosine, ExpertVectorsStartOrthogonal) {
  const auto wide = scorer("cosine", {{"dimension", std::int64_t{8}}});
  wide->initialize(0.5, InitialDraws(1));
  const at::Tensor v = wide->named_parameters()["experts"].detach();  // [5, 8]
  const at::Tensor expected = at::eye(5, at::kDouble) * (0.32 * 0.32);
  EXPECT_LT(farthest(v.matmul(v.t()), expected), 1e-12);
  EXPECT_EQ(scorer("cosine", {})->named_parameters()["experts"].size(1), 2);  // half of 5 experts
}

TEST(Cosine, ATokenWithoutDirectionGetsEvenLogits) {
  const auto cosine = scorer("cosine", {});
  set(*cosine, case_of("cosine").parameters);
  EXPECT_EQ(cosine->score(at::zeros({2, 3}, at::kDouble), {}).logits.abs().max().item<double>(), 0);
}

/// X-MoE, Eq. 9. The tokens (3, 4) and (4, 3) have the cosines 0.6 and 0.8, and 0.8 and 0.6, with
/// the experts. τ starts at 0.2 and is 0.1 now, so logits are 6 and 8. The balance loss reads 3 and
/// 4. At k = 1 each token alone has the loss E·Σ f·P = 2·e⁴/(e³ + e⁴); together the tokens are
/// balanced, and their loss is 1. The gradient does not reach τ.
TEST(Cosine, BalanceLossesReadTheTemperatureOfTheStart) {
  const RouterShape two{.d_model = 2, .experts = 2, .k = 1};
  const auto cosine = scorer("cosine", {{"dimension", std::int64_t{2}}, {"temperature", 0.2}}, two);
  set(*cosine, {{"projection", {1, 0, 0, 1}},
                {"experts", {2, 0, 0, 5}},
                {"log_temperature", {std::log(0.1)}}});
  RoutingContext context{.training = true};
  context.sequence_length = 1;
  const auto loss = [&](const at::Tensor& tokens, const std::string& scope) {
    const Scores scores = cosine->score(tokens, context);
    Plan plan = selector("topk", two)->select(scores, context);
    plan.k = 1;
    return balancer("load-balance", two, {{"coefficient", 1.0}, {"scope", scope}})
        ->balance(scores, plan, context)
        .loss;
  };
  const at::Tensor one = matrix({{3, 4}}), both = matrix({{3, 4}, {4, 3}});
  expect_near(cosine->score(one, context).logits.detach(), {6, 8}, "logits");
  EXPECT_NEAR(loss(one, "micro-batch").item<double>(), 1.4621171572600098, 1e-12);
  EXPECT_NEAR(loss(both, "sequence").item<double>(), 1.4621171572600098, 1e-12);
  EXPECT_NEAR(loss(both, "micro-batch").item<double>(), 1, 1e-12);
  loss(one, "micro-batch").backward();
  const auto parameters = cosine->named_parameters();
  EXPECT_TRUE(parameters["projection"].grad().defined());
  EXPECT_FALSE(parameters["log_temperature"].grad().defined());
}

/// Gradients of every trained parameter and of the tokens agree with finite differences, entry by
/// entry, with noise and dropout on.
TEST(Scorers, GradientsAreThoseOfFiniteDifferences) {
  std::vector<ScorerCase> cases = kScorerCases;
  ScorerCase dropped = case_of("hypernetwork");
  dropped.options.insert({{"dropout", 0.5}, {"l2", 0.1}, {"train_network", true}});
  cases.push_back(dropped);
  for (const ScorerCase& each : cases) {
    SCOPED_TRACE(each.scorer);
    const auto part = scorer(each.scorer, each.options);
    set(*part, each.parameters);
    const at::Tensor h = hidden().requires_grad_();
    const auto objective = [&] {
      const Scores scores = part->score(h, training(5));
      const at::Tensor sum = (scores.logits * logits_of(kProbe)).sum();
      return scores.penalty.defined() ? sum + scores.penalty : sum;
    };
    objective().backward();
    torch::NoGradGuard no_grad;
    std::vector<at::Tensor> leaves{h};
    for (const at::Tensor& parameter : part->parameters())
      if (parameter.requires_grad()) leaves.push_back(parameter);
    for (const at::Tensor& leaf : leaves) {
      for (std::int64_t n = 0; n < leaf.numel(); ++n) {
        double& entry = leaf.data_ptr<double>()[n];
        const double kept = entry, step = 1e-6;
        entry = kept + step;
        const double above = objective().item<double>();
        entry = kept - step;
        const double below = objective().item<double>();
        entry = kept;
        const double analytic = leaf.grad().defined() ? leaf.grad().flatten()[n].item<double>() : 0;
        EXPECT_NEAR(analytic, (above - below) / (2 * step), 1e-7) << leaf.sizes() << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::testing
