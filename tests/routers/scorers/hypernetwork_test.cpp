// The hypernetwork scorer apart from its formula: sizes, initialisation, the router that inference
// caches, sharing, dropout and the L2 term.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

#include "penstock/routers/resolve.h"
#include "penstock/routers/router.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::Options;

/// One layer of the paper's small Transformer-XL.
const RouterShape kPaper{.d_model = 256, .experts = 16, .k = 2, .layers = 4};
const RouterShape kSmall{.d_model = 6, .experts = 5, .k = 2, .layers = 2};

std::shared_ptr<Scorer> hypernetwork(const RouterShape& shape, const Options& options = {}) {
  auto scorer = scorer_registry().at("hypernetwork").make(shape, testing::node(options));
  scorer->initialize(0.02, InitialDraws(1));
  return scorer;
}

std::int64_t trained(const Scorer& scorer) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : scorer.parameters())
    if (parameter.requires_grad()) count += parameter.numel();
  return count;
}

TEST(Hypernetwork, HasThePublishedNumbersOfParameters) {
  // Over four layers: routers of 16,448 and embeddings of 1,024 parameters. Each layer's network
  // has 1,122,576.
  const auto scorer = hypernetwork(kPaper);
  const ScorerParameters parts = scorer->parameters_by_part();
  EXPECT_EQ(parts.router, 16448 / 4);
  EXPECT_EQ(parts.embedding, 1024 / 4);
  EXPECT_EQ(parts.network, 1122576);
  EXPECT_EQ(trained(*scorer), 256);
  const FoldedScorer router = scorer->fold();
  EXPECT_EQ(4 * (router.weight.numel() + router.bias.numel()), 16448);
  const auto linear = scorer_registry().at("linear").make(kPaper, testing::node({{"bias", true}}));
  EXPECT_EQ(linear->parameters_by_part().router, 16448 / 4);
  EXPECT_EQ(linear->parameters_by_part().network, 0);
}

TEST(Hypernetwork, TheAuthorsInitialisationMakesSharperRouters) {
  // A hidden unit sums 256 terms with variance 0.02² · 1; relu halves its mean square. A weight
  // sums 256 units times N(0, 0.02²): 0.02 · 0.02 · 256 / sqrt(2) = 0.0724. With 64 hidden units it
  // is half.
  for (const auto& [hidden, expected] :
       {std::pair<std::int64_t, double>{256, 0.0724}, {64, 0.0362}}) {
    double square = 0;
    for (int seed = 0; seed < 8; ++seed) {
      const auto scorer = hypernetwork(kPaper, {{"hidden", hidden}});
      scorer->initialize(0.02, InitialDraws(seed));
      square += scorer->fold().weight.square().mean().item<double>() / 8;
    }
    EXPECT_NEAR(std::sqrt(square), expected, 0.05 * expected) << hidden;
  }
}

TEST(Hypernetwork, HyperfanInGivesLogitsTheVarianceOfTheToken) {
  for (const bool bias : {true, false})
    for (const std::string generate : {"whole", "rows"}) {
      const auto scorer = hypernetwork(
          kPaper, {{"init", std::string("hyperfan-in")}, {"bias", bias}, {"generate", generate}});
      double weights = 0, biases = 0, logits = 0;
      const int draws = generate == "rows" ? 40 : 12;
      torch::manual_seed(1);
      for (int seed = 0; seed < draws; ++seed) {
        scorer->initialize(0.02, InitialDraws(seed));
        const FoldedScorer router = scorer->fold();
        weights += router.weight.square().mean().item<double>() / draws;
        if (bias) biases += router.bias.square().mean().item<double>() / draws;
        torch::NoGradGuard no_grad;
        logits += scorer->score(torch::randn({64, 256}), {}).logits.square().mean().item<double>() /
                  draws;
      }
      EXPECT_NEAR(weights * 256, bias ? 0.5 : 1, 0.1) << generate << bias;
      if (bias) {
        EXPECT_NEAR(biases, 0.5, 0.15) << generate;
      }
      EXPECT_NEAR(logits, 1, 0.2) << generate << bias;
    }
}

TEST(Hypernetwork, ALinearOneIsAFrozenMatrixOfItsEmbedding) {
  const auto scorer =
      hypernetwork(kPaper, {{"form", std::string("linear")}, {"embedding", std::int64_t{64}}});
  const ScorerParameters parts = scorer->parameters_by_part();
  EXPECT_EQ(parts.router, 16448 / 4);
  EXPECT_EQ(parts.embedding, 64);
  EXPECT_EQ(parts.network, 64 * 16448 / 4);
  EXPECT_EQ(trained(*scorer), 64);
  // All routers lie in a subspace whose dimension is the embedding's size.
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> routers;
  at::Tensor embedding = scorer->named_parameters()["embedding"];
  for (int i = 0; i < 80; ++i) {
    embedding.normal_();
    const FoldedScorer router = scorer->fold();
    routers.push_back(at::cat({router.weight.flatten(), router.bias}).to(at::kDouble));
  }
  EXPECT_EQ(at::linalg_matrix_rank(torch::stack(routers), 1e-5).item<std::int64_t>(), 64);
}

TEST(Hypernetwork, LogitsOfALinearOneHaveTheVarianceAskedFor) {
  double authors = 0, logits = 0;
  const int draws = 30;
  const Options linear{{"form", std::string("linear")}, {"embedding", std::int64_t{64}}};
  Options unit = linear;
  unit["init"] = std::string("hyperfan-in");
  const auto plain = hypernetwork(kPaper, linear), unit_variance = hypernetwork(kPaper, unit);
  const torch::NoGradGuard no_grad;
  for (int seed = 0; seed < draws; ++seed) {
    plain->initialize(0.02, InitialDraws(seed));
    unit_variance->initialize(0.02, InitialDraws(seed));
    authors += plain->fold().weight.square().mean().item<double>() / draws;
    torch::manual_seed(seed);
    logits +=
        unit_variance->score(torch::randn({64, 256}), {}).logits.square().mean().item<double>() /
        draws;
  }
  EXPECT_NEAR(std::sqrt(authors), 0.02 * 8, 0.05 * 0.16);  // a weight sums 64 terms of N(0, 0.02²)
  EXPECT_NEAR(logits, 1, 0.15);
}

TEST(Hypernetwork, ALinearOneHasNoHiddenUnitsToDrop) {
  EXPECT_THROW(hypernetwork(kSmall, {{"form", std::string("linear")}, {"dropout", 0.5}}), Error);
}

TEST(Hypernetwork, InferenceFollowsEveryChangeOfAParameter) {
  torch::NoGradGuard no_grad;
  const at::Tensor hidden = torch::randn({3, 6}, at::kDouble);
  const auto scorer = hypernetwork(kSmall);
  scorer->to(at::kDouble);
  at::Tensor before = scorer->score(hidden, {}).logits;
  EXPECT_TRUE(before.equal(scorer->score(hidden, {}).logits));
  const auto expect_changed = [&](const char* what) {
    const at::Tensor now = scorer->score(hidden, {}).logits;
    EXPECT_FALSE(now.equal(before)) << what;
    const FoldedScorer router = scorer->fold();
    EXPECT_TRUE(at::allclose(now, at::linear(hidden, router.weight, router.bias), 1e-12, 1e-12))
        << what;
    before = now;
  };
  for (const auto& parameter : scorer->named_parameters()) {
    parameter.value().detach().add_(0.5);
    expect_changed(parameter.key().c_str());
  }
  scorer->initialize(0.1, InitialDraws(9));
  expect_changed("initialize");
  // The fused optimizer writes to memory past libtorch's version counters. Its write follows a
  // training pass, as here.
  scorer->score(hidden, {.training = true});
  scorer->named_parameters()["embedding"].data_ptr<double>()[0] += 1;
  expect_changed("a write past the counters");
  // With distillation, a pass of the teacher comes between the training pass and the write. The
  // evaluation after it begins with a change of the module's mode.
  scorer->score(hidden, {.training = true});
  EXPECT_TRUE(scorer->score(hidden, {}).logits.equal(before));
  scorer->named_parameters()["embedding"].data_ptr<double>()[0] += 1;
  scorer->eval();
  expect_changed("a write past the counters, after the teacher's pass");
}

TEST(Hypernetwork, InferenceThatWantsAGradientGetsOne) {
  const auto scorer = hypernetwork(kSmall);
  {
    torch::NoGradGuard no_grad;
    scorer->score(torch::randn({3, 6}), {});
  }
  scorer->score(torch::randn({3, 6}), {}).logits.sum().backward();
  EXPECT_TRUE(scorer->named_parameters()["embedding"].grad().defined());
}

TEST(Hypernetwork, SharedNetworksAreOneAndSavedOnce) {
  const Options share{{"share", true}};
  const auto first = hypernetwork(kSmall, share), second = hypernetwork(kSmall, share);
  second->initialize(0.3, InitialDraws(2));
  first->share(*first);
  second->share(*first);
  EXPECT_EQ(first->named_parameters().size(), 5U);
  ASSERT_EQ(second->named_parameters().size(), 1U);
  EXPECT_EQ(second->parameters_by_part().network, 0);
  EXPECT_FALSE(second->fold().weight.equal(first->fold().weight));  // each has its own embedding
  torch::NoGradGuard no_grad;
  second->named_parameters()["embedding"].copy_(first->named_parameters()["embedding"]);
  EXPECT_TRUE(second->fold().weight.equal(first->fold().weight));
  first->named_parameters()["network.w1"].mul_(2);
  EXPECT_TRUE(second->fold().weight.equal(first->fold().weight));

  const auto apart = hypernetwork(kSmall);
  apart->share(*first);
  EXPECT_EQ(apart->named_parameters().size(), 5U);
}

TEST(Hypernetwork, DropoutActsWhenTrainingAndKeepsTheMean) {
  const auto scorer = hypernetwork(kPaper, {{"dropout", 0.5}});
  torch::NoGradGuard no_grad;
  const at::Tensor unit = at::eye(256);  // the logits are the router's weights
  const at::Tensor clean = scorer->score(unit, {}).logits;
  at::Tensor mean = at::zeros_like(clean);
  RoutingContext context{.training = true};
  for (int seed = 0; seed < 200; ++seed) {
    context.generator = at::detail::createCPUGenerator(seed);
    mean += scorer->score(unit, context).logits / 200;
  }
  context.generator = at::detail::createCPUGenerator(0);
  EXPECT_FALSE(at::allclose(scorer->score(unit, context).logits, clean, 1e-2, 1e-3));
  // The mean of 200 passes has 1/200 of one pass's variance, which equals the router's own
  // variance.
  EXPECT_LT((mean - clean).std().item<double>(), 0.1 * clean.std().item<double>());
}

TEST(Hypernetwork, TheL2TermIsTheSquareOfTheGeneratedRouter) {
  const auto scorer = hypernetwork(kSmall, {{"l2", 0.25}});
  scorer->to(at::kDouble);
  const at::Tensor hidden = torch::randn({3, 6}, at::kDouble);
  const FoldedScorer router = scorer->fold();
  const at::Tensor expected = 0.25 * (router.weight.square().sum() + router.bias.square().sum());
  const Scores scores = scorer->score(hidden, {.training = true});
  EXPECT_NEAR(scores.penalty.item<double>(), expected.item<double>(), 1e-15);
  EXPECT_FALSE(scorer->score(hidden, {}).penalty.defined());
  EXPECT_FALSE(
      hypernetwork(kSmall)->score(torch::randn({3, 6}), {.training = true}).penalty.defined());

  const ResolvedRouter resolved =
      resolve({.scorer = "hypernetwork",
               .selector = "topk",
               .balancers = std::vector<std::string>{},
               .parts = {{"hypernetwork", testing::node({{"l2", 0.25}})}}});
  Router layer(resolved, kSmall, {});
  layer.initialize(0.02, InitialDraws(1));
  const RoutingResult result = layer.route(torch::randn({3, 6}), {.training = true});
  EXPECT_GT(result.loss.item<double>(), 0);
  EXPECT_FALSE(layer.route(torch::randn({3, 6}), {}).loss.defined());
}

}  // namespace
}  // namespace penstock
