// Routers made from attention heads, by hand: the order of rows, ties, the folded form, and the
// estimate of its learning rate.
#include "penstock/convert/upcycle/head_mixture.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

namespace penstock {
namespace {

at::Tensor numbers(std::initializer_list<double> values, at::IntArrayRef sizes) {
  return torch::tensor(std::vector<double>(values)).to(at::kFloat).view(sizes);
}

/// Groups of four heads. Head h has the query rows 10h and 10h+1 and the mean key (h, -h); d = 1.
const HeadGroups kPairs{.queries = {{0, 3}, {1, 2}}, .keys = {{0, 3}, {1, 2}, {0, 1}, {2, 3}}};
at::Tensor query_rows() { return numbers({0, 1, 10, 11, 20, 21, 30, 31}, {8, 1}); }
at::Tensor keys() { return numbers({0, 0, 1, -1, 2, -2, 3, -3}, {4, 2}); }

TEST(HeadMixture, HeadsAreJoinedInTheSameOrder) {
  const RouterTensors mixture =
      mixture_of_heads(kPairs, query_rows(), query_rows().view({8}), keys());
  EXPECT_TRUE(mixture.at("queries").equal(numbers({0, 1, 30, 31, 10, 11, 20, 21}, {2, 4, 1})));
  EXPECT_TRUE(mixture.at("query_bias").equal(numbers({0, 1, 30, 31, 10, 11, 20, 21}, {2, 4})));
  EXPECT_TRUE(mixture.at("keys").equal(
      numbers({0, 0, 3, -3, 1, -1, 2, -2, 0, 0, 1, -1, 2, -2, 3, -3}, {4, 4})));
}

/// Cut in two, heads 0 and 1 become four heads of width 1, with the rows 0, 1, 10 and 11.
TEST(HeadMixture, ACutHeadIsTwo) {
  const HeadGroups groups{
      .parts = 2, .queries = {{0}, {1}, {2}, {3}}, .keys = {{0}, {1}, {2}, {3}}};
  const RouterTensors mixture = mixture_of_heads(groups, numbers({0, 1, 10, 11}, {4, 1}), {},
                                                 split_heads(numbers({5, 6, 7, 8}, {2, 2}), 2));
  EXPECT_TRUE(mixture.at("queries").equal(numbers({0, 1, 10, 11}, {4, 1, 1})));
  EXPECT_TRUE(mixture.at("keys").equal(numbers({5, 6, 7, 8}, {4, 1})));
  EXPECT_FALSE(mixture.contains("query_bias"));
}

/// Σ_j W^j = (10, 12, 50, 52), √d' = 2.
TEST(HeadMixture, CollapsesIntoOneMatrix) {
  const RouterTensors mixture =
      mixture_of_heads({.queries = kPairs.queries, .keys = kPairs.queries}, query_rows(),
                       query_rows().view({8}) * 2, keys());
  const RouterTensors plain = collapsed_mixture(mixture);
  EXPECT_TRUE(plain.at("weight").equal(
      numbers({(3 * 50 - 3 * 52) / 2., (10 - 12 + 2 * 50 - 2 * 52) / 2.}, {2, 1})));
  EXPECT_TRUE(plain.at("bias").equal(plain.at("weight").view({2}) * 2));
}

/// Rows (1, 2, 3) and (4, 5, 6), gains (2, 1, 3) and (4, 0.5, 0): the columns are multiplied by
/// (0.5, 2, 0). For n = (1, 1, 1) the corrected maps give, after the experts' norm, the query that
/// the original maps give after attention's norm, without the third feature.
TEST(HeadMixture, QueriesReadTheExpertsInputAsTheyDidAttentions) {
  const at::Tensor weight = numbers({1, 2, 3, 4, 5, 6}, {2, 3});
  const at::Tensor of_experts = numbers({4, 0.5, 0}, {3});
  const at::Tensor made = with_corrected_gain(weight, numbers({2, 1, 3}, {3}), of_experts);
  EXPECT_TRUE(made.equal(numbers({0.5, 4, 0, 2, 10, 0}, {2, 3})));
  // 1·2 + 2·1 and 4·2 + 5·1: attention's query without the feature whose gain is 0.
  EXPECT_TRUE(made.mv(of_experts).equal(numbers({4, 13}, {2})));
}

TEST(HeadMixture, EqualKeysAreToldApart) {
  at::Tensor some = numbers({3, 4, 1, 2, 3, 4, 3, 4}, {4, 2});
  const at::Tensor before = some.clone();
  EXPECT_EQ(break_ties(some, InitialDraws(7)), 2);
  EXPECT_TRUE(some.slice(0, 0, 2).equal(before.slice(0, 0, 2)));
  EXPECT_FALSE(some[2].equal(some[3]));
  const double moved = (some - before).abs().max().item<double>();
  EXPECT_GT(moved, 0);
  EXPECT_LT(moved, 4 * 0.1 * std::sqrt(12.5));  // four deviations; one is a tenth of the RMS
  at::Tensor again = before.clone();
  break_ties(again, InitialDraws(7));
  EXPECT_TRUE(again.equal(some));
  at::Tensor distinct = keys();
  EXPECT_EQ(break_ties(distinct, InitialDraws(7)), 0);
  EXPECT_TRUE(distinct.equal(keys()));
}

/// The RMS change of the folded matrix's entries over h, when one step moves every entry by ±h. The
/// expected value comes from random draws.
TEST(HeadMixture, TheLearningRatesFactorIsWhatAStepOfRandomSignsDoes) {
  torch::manual_seed(2);
  const std::int64_t m = 4, width = 64, d = 96, experts = 8;
  const RouterTensors mixture{{"queries", torch::randn({m, width, d}) * 0.3},
                              {"keys", torch::randn({experts, width}) * 0.7}};
  const double h = 1e-4;
  double square = 0;
  for (int draw = 0; draw < 20; ++draw) {
    const at::Tensor same = torch::randn({width, d}).sign() * h;  // the step of every query map
    const RouterTensors moved{
        {"queries", mixture.at("queries") + same},
        {"keys", mixture.at("keys") + torch::randn({experts, width}).sign() * h}};
    const at::Tensor change =
        collapsed_mixture(moved).at("weight") - collapsed_mixture(mixture).at("weight");
    square += change.square().mean().item<double>() / 20;
  }
  const double expected = std::sqrt(square) / h;
  EXPECT_NEAR(effective_lr_scale(mixture), expected, 0.03 * expected);
}

}  // namespace
}  // namespace penstock
