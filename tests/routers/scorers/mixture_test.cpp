// Router Upcycling's scorer by hand: pools, keys, sizes, initialisation and folded form.
// scorers_test.cpp tests its formula on larger inputs.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/routers/resolve.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::matrix;
using testing::Options;

std::shared_ptr<Scorer> mixture(const RouterShape& shape, const Options& options = {},
                                at::ScalarType type = at::kDouble) {
  auto scorer = scorer_registry().at("mixture").make(shape, testing::node(options));
  scorer->to(type);
  return scorer;
}

void set(Scorer& scorer, const std::string& name, const at::Tensor& values) {
  const torch::NoGradGuard no_grad;
  at::Tensor parameter = scorer.named_parameters()[name];
  parameter.copy_(values.view(parameter.sizes()));
}

at::Tensor logits(Scorer& scorer, const at::Tensor& x) {
  const torch::NoGradGuard no_grad;
  return scorer.score(x, {}).logits;
}

void expect_equal(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LT(testing::farthest(actual, expected), 1e-13) << actual << expected;
}

/// W¹ = (1, 2), W² = (3, -1), keys 2 and -1. For x = (1, 1): Q = 3, 2; S_1 = 6, 4; S_2 = -3, -2.
/// For x = (1, -1): Q = -1, 4; S_1 = -2, 8; S_2 = 1, -4.
TEST(Mixture, PoolsTheScoresOfEveryRouterWithEveryKey) {
  for (const std::string pool : {"sum", "max"}) {
    const auto scorer =
        mixture({.d_model = 2, .experts = 2}, {{"pool", pool}, {"width", std::int64_t{1}}});
    set(*scorer, "queries", matrix({{1, 2}, {3, -1}}));
    set(*scorer, "keys", matrix({{2}, {-1}}));
    expect_equal(logits(*scorer, matrix({{1, 1}, {1, -1}})),
                 pool == "sum" ? matrix({{10, -5}, {6, -3}}) : matrix({{6, -2}, {8, 1}}));
  }
}

TEST(Mixture, DividesByTheRootOfTheWidth) {
  const auto scorer = mixture({.d_model = 2, .experts = 2}, {{"width", std::int64_t{4}}});
  set(*scorer, "queries",
      matrix({{1, 2}, {0, 0}, {0, 0}, {0, 0}, {3, -1}, {0, 0}, {0, 0}, {0, 0}}));
  set(*scorer, "keys", matrix({{2, 7, 7, 7}, {-1, 7, 7, 7}}));
  expect_equal(logits(*scorer, matrix({{1, 1}})), matrix({{5, -2.5}}));
}

/// Three keys for two experts: ⌊key·2/3⌋ = 0, 0, 1 is the key's expert. Σ_j W^j = (1, 0).
TEST(Mixture, AnExpertOfSeveralKeysCountsTheHighestSum) {
  const auto scorer = mixture(
      {.d_model = 2, .experts = 2},
      {{"routers", std::int64_t{3}}, {"keys", std::int64_t{3}}, {"width", std::int64_t{1}}});
  set(*scorer, "queries", matrix({{3, 1}, {-1, 0}, {-1, -1}}));
  set(*scorer, "keys", matrix({{2}, {-1}, {5}}));
  expect_equal(logits(*scorer, matrix({{2, 9}, {-2, 9}})), matrix({{4, 10}, {2, -10}}));
}

/// With max pooling the logit is one maximum over all pairs of a router and a key of the expert.
TEST(Mixture, SeveralKeysUnderMaxPooling) {
  const auto scorer = mixture({.d_model = 1, .experts = 2}, {{"routers", std::int64_t{2}},
                                                             {"keys", std::int64_t{4}},
                                                             {"width", std::int64_t{1}},
                                                             {"pool", std::string("max")}});
  set(*scorer, "queries", matrix({{1}, {-2}}));
  set(*scorer, "keys", matrix({{1}, {-3}, {2}, {4}}));
  // Q = 1, -2; per key: max(1, -2), max(-3, 6), max(2, -4), max(4, -8).
  expect_equal(logits(*scorer, matrix({{1}})), matrix({{6, 4}}));
}

TEST(Mixture, AQueryBiasIsAddedInEveryRouter) {
  const auto scorer =
      mixture({.d_model = 1, .experts = 2},
              {{"routers", std::int64_t{3}}, {"width", std::int64_t{1}}, {"bias", true}});
  set(*scorer, "queries", matrix({{1}, {1}, {1}}));
  set(*scorer, "query_bias", matrix({{5}, {-2}, {0}}));
  set(*scorer, "keys", matrix({{1}, {10}}));
  expect_equal(logits(*scorer, matrix({{2}})), matrix({{9, 90}}));
  expect_equal(scorer->fold().bias, torch::tensor({3., 30.}, at::kDouble));
}

/// The paper's variants for d = 1024 (section 5.2.1): m maps of width 1024 / m, and one key per
/// expert. With more routers than experts there are as many keys as routers.
TEST(Mixture, HasThePublishedSizes) {
  struct Variant {
    std::int64_t routers, experts, keys, width;
  };
  for (const Variant& v : {Variant{2, 8, 0, 512},
                           {4, 8, 0, 256},
                           {8, 8, 0, 128},
                           {16, 8, 16, 64},
                           {32, 8, 32, 32},
                           {16, 16, 0, 64}}) {
    const auto scorer = mixture({.d_model = 1024, .experts = v.experts},
                                {{"routers", v.routers}, {"keys", v.keys}}, at::kFloat);
    const auto parameters = scorer->named_parameters();
    EXPECT_EQ(parameters["queries"].sizes(), (std::vector<std::int64_t>{v.routers, v.width, 1024}));
    EXPECT_EQ(parameters["keys"].sizes(),
              (std::vector<std::int64_t>{v.keys > 0 ? v.keys : v.experts, v.width}));
  }
  // Eight maps of 1024 x 128: "approximately 1M for each layer" (section 4.1), with 8 keys.
  EXPECT_EQ(mixture({.d_model = 1024, .experts = 8})->parameters_by_part().router,
            8 * 1024 * 128 + 8 * 128);
}

TEST(Mixture, FactoredAndFoldedAgree) {
  for (const bool bias : {false, true}) {
    const RouterShape shape{.d_model = 256, .experts = 8};
    torch::manual_seed(3);
    const at::Tensor x = torch::randn({200, 256}, at::kDouble);
    for (const auto type : {at::kDouble, at::kFloat}) {
      const auto scorer = mixture(shape, {{"bias", bias}}, type);
      scorer->initialize(0.3, InitialDraws(1));
      if (bias) set(*scorer, "query_bias", torch::randn({8, 32}, at::kDouble));
      const FoldedScorer folded = scorer->fold();
      at::Tensor plain = x.to(type).matmul(folded.weight.t());
      if (bias) plain = plain + folded.bias;
      const at::Tensor factored = logits(*scorer, x.to(type));
      const double off = testing::farthest(plain, factored),
                   largest = factored.abs().max().item<double>();
      EXPECT_LT(off, (type == at::kDouble ? 1e-10 : 1e-5) * largest);
      const auto top = [](const at::Tensor& z) { return std::get<1>(z.topk(2, 1)); };
      EXPECT_TRUE(top(plain).equal(top(factored)));
    }
  }
}

/// A linear router's logits have variance d·std² for a token of d entries with unit variance.
TEST(Mixture, StartsWithTheLogitsOfALinearRouter) {
  for (const std::string form : {"factored", "collapsed"}) {
    double square = 0;
    torch::manual_seed(5);
    for (int seed = 0; seed < 20; ++seed) {
      const auto scorer = mixture({.d_model = 128, .experts = 8}, {{"parameterisation", form}});
      scorer->initialize(0.02, InitialDraws(seed));
      square +=
          logits(*scorer, torch::randn({64, 128}, at::kDouble)).square().mean().item<double>() / 20;
    }
    EXPECT_NEAR(square, 128 * 0.02 * 0.02, 0.2 * 128 * 0.02 * 0.02) << form;
  }
}

TEST(Mixture, TheCollapsedFormStartsAsTheSameFunction) {
  const RouterShape shape{.d_model = 24, .experts = 6};
  const auto factored = mixture(shape),
             collapsed = mixture(shape, {{"parameterisation", std::string("collapsed")}});
  factored->initialize(0.4, InitialDraws(9));
  collapsed->initialize(0.4, InitialDraws(9));
  const at::Tensor x = torch::randn({7, 24}, at::kDouble);
  expect_equal(logits(*collapsed, x), logits(*factored, x));
  EXPECT_EQ(collapsed->named_parameters().keys(), std::vector<std::string>{"weight"});
}

TEST(Mixture, FoldsUnderASumOverOneKeyEachAlone) {
  const auto foldable = [](const Options& options) {
    return resolve({.method = "router-upcycling", .parts = {{"mixture", testing::node(options)}}})
        .traits.foldable;
  };
  EXPECT_TRUE(foldable({}));
  EXPECT_FALSE(foldable({{"pool", std::string("max")}}));
  EXPECT_FALSE(foldable({{"keys", std::int64_t{16}}}));
  EXPECT_FALSE(resolve({.method = "router-upcycling-max"}).traits.foldable);
  const RouterShape shape{.d_model = 8, .experts = 2};
  EXPECT_THROW(mixture(shape, {{"pool", std::string("max")}})->fold(), AssertionError);
  EXPECT_THROW(mixture(shape, {{"keys", std::int64_t{4}}})->fold(), AssertionError);
  EXPECT_THROW(mixture(shape, {{"pool", std::string("max")},
                               {"parameterisation", std::string("collapsed")}}),
               Error);
  EXPECT_THROW(mixture(shape, {{"keys", std::int64_t{1}}}), Error);
}

}  // namespace
}  // namespace penstock
