// Routing operators: numbers worked by hand, gradients in f64 by finite differences, and the f32
// path against the reference in every index and every sum. (The routers' tests cover the plans.)
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock::route_test {
namespace {

using namespace penstock::testing;

struct Size {
  std::int64_t tokens, experts, k;
};
const std::vector<Size> kSizes{{1, 1, 1},    {1, 8, 1},   {7, 3, 2},    {64, 8, 1},
                               {65, 8, 8},   {63, 17, 5}, {130, 64, 8}, {33, 100, 7},
                               {20, 512, 8}, {3, 40, 39}, {129, 16, 2}, {5, 1000, 100}};

/// All values that have a gradient, or only value number `which`.
TensorFunction topk(std::int64_t k, bool over_kept, int which = -1) {
  return [=](const std::vector<at::Tensor>& in) {
    const ops::Route route = ops::route_topk(in[0], k, over_kept);
    const std::vector<at::Tensor> values{route.weight, route.mean_probability, route.logsumexp};
    return which < 0 ? at::cat(values) : values[static_cast<std::size_t>(which)];
  };
}
TensorFunction relu(int which = -1) {
  return [=](const std::vector<at::Tensor>& in) {
    const ops::Route route = ops::route_relu(in[0]);
    if (which < 0) return at::cat({route.weight, route.gate_sums});
    return which == 0 ? route.weight : route.gate_sums;
  };
}

void expect_same_indices(const ops::Route& a, const ops::Route& b, const std::string& where) {
  for (const auto member : {&ops::Route::token, &ops::Route::expert, &ops::Route::offsets,
                            &ops::Route::by_token, &ops::Route::token_offsets})
    ASSERT_TRUE((a.*member).equal(b.*member)) << where;
}

std::vector<std::int64_t> list(const at::Tensor& t) {
  return {t.data_ptr<std::int64_t>(), t.data_ptr<std::int64_t>() + t.numel()};
}
using Ints = std::vector<std::int64_t>;

TEST(RouteTopK, WorkedByHand) {
  // The probabilities of token 0 are 0.1, 0.2, 0.7. Those of token 1 are 0.5, 0.25, 0.25, with a
  // tie.
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto z =
        torch::tensor({1.0, 2.0, 7.0, 2.0, 1.0, 1.0}, at::kDouble).log().view({2, 3}).to(type);
    for (const bool over_kept : {false, true}) {
      const ops::Route route = ops::route_topk(z, 2, over_kept);
      EXPECT_EQ(list(route.expert), (Ints{0, 1, 1, 2}));
      EXPECT_EQ(list(route.token), (Ints{1, 0, 1, 0}));
      EXPECT_EQ(list(route.offsets), (Ints{0, 1, 3, 4}));
      EXPECT_EQ(list(route.by_token), (Ints{1, 3, 0, 2}));
      EXPECT_EQ(list(route.token_offsets), (Ints{0, 2, 4}));
      const auto weight = over_kept ? torch::tensor({2. / 3, 2. / 9, 1. / 3, 7. / 9}, at::kDouble)
                                    : torch::tensor({0.5, 0.2, 0.25, 0.7}, at::kDouble);
      EXPECT_LT(relative_error(route.weight, weight), 1e-6);
      EXPECT_LT(
          relative_error(route.mean_probability, torch::tensor({0.3, 0.225, 0.475}, at::kDouble)),
          1e-6);
      EXPECT_LT(relative_error(route.logsumexp, torch::tensor({10.0, 4.0}, at::kDouble).log()),
                1e-6);
    }
  }
}

TEST(RouteTopK, GradientsOfTheReference) {
  for (const bool over_kept : {false, true})
    for (const int which : {-1, 0, 1, 2}) {
      torch::manual_seed(5);
      const auto report = check_gradients(topk(2, over_kept, which), {normal({6, 5})});
      EXPECT_LT(report.error, 1e-8) << report.where << ", output " << which;
    }
}

TEST(RouteTopK, FastPathOnOddShapes) {
  for (const auto& [tokens, experts, k] : kSizes)
    for (const bool over_kept : {false, true}) {
      torch::manual_seed(tokens * 1000 + experts);
      expect_fast_path("route_topk", "cpu", topk(k, over_kept), {normal({tokens, experts}) * 3});
    }
}

TEST(RouteTopK, FastPathOfEachOutputAlone) {
  for (const bool over_kept : {false, true})
    for (const int which : {0, 1, 2}) {
      torch::manual_seed(which);
      expect_fast_path("route_topk", "cpu", topk(3, over_kept, which), {normal({70, 21})});
    }
}

TEST(RouteTopK, TakesWhatTheStableSortTakes) {
  // The logits have few distinct values, so most choices are among ties. Some logits are NaN or −∞.
  torch::manual_seed(6);
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto& [tokens, experts, k] : kSizes)
    for (const int odd : {0, 1, 2}) {
      at::Tensor z = torch::randint(-2, 3, {tokens, experts}, at::kFloat);
      const at::Tensor hit = torch::rand({tokens, experts}) < 0.2;
      if (odd == 1) z = z.masked_fill(hit, NAN);
      if (odd == 2) z = z.masked_fill(hit, -inf);
      const ops::Route fast = ops::route_topk(z, k, false);
      const ops::ReferenceOnly only;
      expect_same_indices(fast, ops::route_topk(z, k, false),
                          concat(tokens, "x", experts, ", k = ", k, ", oddity ", odd));
    }
}

TEST(RouteTopK, ANaNIsSeenInTheWeights) {
  for (const auto type : {at::kFloat, at::kDouble})
    for (const bool over_kept : {false, true}) {
      const auto z = torch::tensor({1.0, double(NAN), 0.0, 3.0, 2.0, 1.0}, type).view({2, 3});
      const ops::Route route = ops::route_topk(z, 1, over_kept);
      EXPECT_EQ(list(route.expert), (Ints{0, 0}));  // the number is chosen before the NaN
      EXPECT_TRUE(std::isnan(route.weight[0].item<double>()));
      EXPECT_FALSE(std::isnan(route.weight[1].item<double>()));
      EXPECT_TRUE(std::isnan(route.logsumexp[0].item<double>()));
      EXPECT_TRUE(route.mean_probability.isnan().all().item<bool>());
    }
}

TEST(RouteTopK, LargeLogitsDoNotOverflow) {
  const ops::Route route =
      ops::route_topk(torch::tensor({1e4f, 1e4f, -1e4f}).view({1, 3}), 2, false);
  EXPECT_TRUE(route.weight.equal(torch::tensor({0.5f, 0.5f})));
  EXPECT_EQ(route.mean_probability[2].item<double>(), 0);
}

TEST(RouteTopK, Repeats) {
  torch::manual_seed(7);
  expect_repeats(topk(8, false), {normal({4096, 64})});
  expect_repeats(topk(1, true), {normal({4001, 9})});
}

TEST(RouteTopK, ReadsStridedLogits) {
  torch::manual_seed(8);
  const auto z = torch::randn({9, 33}).t();
  const ops::Route route = ops::route_topk(z, 3, false);
  expect_same_indices(route, ops::route_topk(z.contiguous(), 3, false), "strided");
  auto leaf = z.detach().set_requires_grad(true);
  ops::route_topk(leaf, 3, false).weight.square().sum().backward();
  auto dense = z.contiguous().set_requires_grad(true);
  ops::route_topk(dense, 3, false).weight.square().sum().backward();
  EXPECT_TRUE(leaf.grad().equal(dense.grad()));
}

TEST(RouteTopK, NoTokensAreNormal) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto results = value_and_gradients(topk(2, false), {normal({0, 3})}, type);
    EXPECT_TRUE(results[0].equal(torch::zeros({3}, type)));
    EXPECT_EQ(results[1].sizes(), (at::IntArrayRef{0, 3}));
  }
}

TEST(RouteTopK, RefusesWhatDoesNotFit) {
  const auto z = torch::zeros({2, 4});
  EXPECT_THROW(ops::route_topk(z, 0, false), Error);
  EXPECT_THROW(ops::route_topk(z, 5, false), Error);
  EXPECT_THROW(ops::route_topk(z.flatten(), 1, false), Error);
  EXPECT_THROW(ops::route_topk(z.to(at::kLong), 1, false), Error);
}

TEST(RouteRelu, WorkedByHand) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto z = torch::tensor({1.0, -2.0, 0.5, 0.0, 3.0, -1.0, -1.0, -1.0, -1.0}, type)
                       .view({3, 3})
                       .set_requires_grad(true);
    const ops::Route route = ops::route_relu(z);
    EXPECT_EQ(list(route.expert), (Ints{0, 1, 2}));
    EXPECT_EQ(list(route.token), (Ints{0, 1, 0}));
    EXPECT_EQ(list(route.offsets), (Ints{0, 1, 2, 3}));
    EXPECT_EQ(list(route.by_token), (Ints{0, 2, 1}));
    EXPECT_EQ(list(route.token_offsets), (Ints{0, 2, 3, 3}));
    EXPECT_TRUE(route.weight.equal(torch::tensor({1.0, 3.0, 0.5}, type)));
    EXPECT_TRUE(route.gate_sums.equal(torch::tensor({1.0, 3.0, 0.5}, type)));
    ((route.weight * torch::tensor({1.0, 2.0, 4.0}, type)).sum() +
     (route.gate_sums * torch::tensor({10.0, 20.0, 40.0}, type)).sum())
        .backward();
    EXPECT_TRUE(z.grad().flatten().equal(
        torch::tensor({11.0, 0.0, 44.0, 0.0, 22.0, 0.0, 0.0, 0.0, 0.0}, type)));
  }
}

TEST(RouteRelu, GradientsOfTheReference) {
  for (const int which : {-1, 0, 1}) {
    torch::manual_seed(9);
    const auto report = check_gradients(relu(which), {normal({6, 5})});
    EXPECT_LT(report.error, 1e-8) << report.where << ", output " << which;
  }
}

TEST(RouteRelu, FastPathOnOddShapesAndDensities) {
  for (const auto& [tokens, experts, k] : kSizes)
    for (const double shift : {-9.0, -1.5, 0.0, 9.0}) {  // none, few, half, all
      torch::manual_seed(tokens * 1000 + experts);
      const at::Tensor z = normal({tokens, experts}) + shift;
      expect_fast_path("route_relu", "cpu", relu(), {z});
      const ops::Route fast = ops::route_relu(z.to(at::kFloat));
      const ops::ReferenceOnly only;
      expect_same_indices(fast, ops::route_relu(z.to(at::kFloat)), concat(tokens, "x", experts));
    }
  for (const int which : {0, 1})
    expect_fast_path("route_relu", "cpu", relu(which), {normal({70, 21})});
}

TEST(RouteRelu, KeepsNaN) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const ops::Route route =
        ops::route_relu(torch::tensor({-1.0, double(NAN), 1.0}, type).view({1, 3}));
    EXPECT_EQ(list(route.expert), (Ints{1, 2}));
    EXPECT_TRUE(std::isnan(route.weight[0].item<double>()));
    EXPECT_EQ(route.gate_sums[0].item<double>(), 0);
    EXPECT_TRUE(std::isnan(route.gate_sums[1].item<double>()));
  }
}

TEST(RouteRelu, Repeats) {
  torch::manual_seed(10);
  expect_repeats(relu(), {normal({4096, 64}) - 1});
  expect_repeats(relu(), {normal({4001, 9})});
}

TEST(RouteRelu, NoTokensAreNormal) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto results = value_and_gradients(relu(), {normal({0, 3})}, type);
    EXPECT_TRUE(results[0].equal(torch::zeros({3}, type)));
  }
}

}  // namespace
}  // namespace penstock::route_test
