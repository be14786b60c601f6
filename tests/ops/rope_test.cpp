// Rotary position embedding: hand-worked numbers for both pairings, gradients, the f32 path.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock {
namespace {

using namespace penstock::testing;

TensorFunction rotation(bool adjacent) {
  return [adjacent](const std::vector<at::Tensor>& in) {
    return ops::rope(in[0], in[1], 10000.0, adjacent);
  };
}

TEST(Rope, WorkedByHand) {
  // hd = 4, base 100: the pairs turn by p and p/10.  At p = 3 the cosines and sines are those of 3
  // and 0.3 radians.
  const double c0 = -0.9899924966, s0 = 0.1411200081, c1 = 0.9553364891, s1 = 0.2955202067;
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto x = torch::tensor({1.0, 2.0, 3.0, 4.0}, type).view({1, 1, 1, 4});
    const auto p = torch::tensor({3}, at::kLong);
    const auto halves = ops::rope(x, p, 100.0).view({4});  // pairs (1, 3) and (2, 4)
    EXPECT_NEAR(halves[0].item<double>(), 1 * c0 - 3 * s0, 1e-6);
    EXPECT_NEAR(halves[1].item<double>(), 2 * c1 - 4 * s1, 1e-6);
    EXPECT_NEAR(halves[2].item<double>(), 3 * c0 + 1 * s0, 1e-6);
    EXPECT_NEAR(halves[3].item<double>(), 4 * c1 + 2 * s1, 1e-6);
    const auto adjacent = ops::rope(x, p, 100.0, true).view({4});  // pairs (1, 2) and (3, 4)
    EXPECT_NEAR(adjacent[0].item<double>(), 1 * c0 - 2 * s0, 1e-6);
    EXPECT_NEAR(adjacent[1].item<double>(), 2 * c0 + 1 * s0, 1e-6);
    EXPECT_NEAR(adjacent[2].item<double>(), 3 * c1 - 4 * s1, 1e-6);
    EXPECT_NEAR(adjacent[3].item<double>(), 4 * c1 + 3 * s1, 1e-6);
  }
}

TEST(Rope, DotProductsDependOnDistanceAlone) {
  const auto a = normal({1, 1, 1, 16}), b = normal({1, 1, 1, 16});
  const auto at_position = [](const at::Tensor& x, std::int64_t p) {
    return ops::rope(x, torch::tensor({p}, at::kLong), 10000.0);
  };
  const double near = (at_position(a, 7) * at_position(b, 2)).sum().item<double>();
  const double far = (at_position(a, 1007) * at_position(b, 1002)).sum().item<double>();
  EXPECT_NEAR(near, far, 1e-9);
}

TEST(Rope, GradientsOfTheReference) {
  for (const bool adjacent : {false, true}) {
    const auto report = check_gradients(
        rotation(adjacent), {normal({2, 3, 2, 6}), torch::tensor({0, 5, 17}, at::kLong)});
    EXPECT_LT(report.error, 1e-7) << report.where;
  }
}

TEST(Rope, FastPathOnOddShapes) {
  for (const bool adjacent : {false, true})
    for (const auto& s : std::vector<std::vector<std::int64_t>>{
             {1, 1, 1, 2}, {2, 7, 3, 8}, {3, 65, 4, 32}, {1, 130, 2, 96}}) {
      const auto x = normal(s);
      // Consecutive, far (beyond any table), negative, and one list per sequence.
      const auto p = torch::arange(s[1], at::kLong);
      expect_fast_path("rope", "cpu", rotation(adjacent), {x, p});
      expect_fast_path("rope", "cpu", rotation(adjacent), {x, p * 3 + 100000});
      expect_fast_path("rope", "cpu", rotation(adjacent), {x, p - 5});
      expect_fast_path("rope", "cpu", rotation(adjacent),
                       {x, torch::randint(0, 50, {s[0], s[1]}, at::kLong)});
    }
}

TEST(Rope, ReadsSlicesOfAFusedProjection) {
  const TensorFunction fused = [](const std::vector<at::Tensor>& in) {
    return ops::rope(in[0].view({2, 9, 6, 8}).narrow(2, 1, 3), in[1], 10000.0);
  };
  expect_fast_path("rope", "cpu", fused, {normal({2, 9, 48}), torch::arange(9, at::kLong)});
}

TEST(Rope, Repeats) {
  expect_repeats(rotation(false), {normal({16, 256, 2, 16}), torch::arange(256, at::kLong)});
}

TEST(Rope, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto results = value_and_gradients(
        rotation(false), {normal({2, 0, 3, 8}), torch::empty({0}, at::kLong)}, type);
    EXPECT_EQ(results[0].numel(), 0);
  }
}

TEST(Rope, RefusesWhatDoesNotFit) {
  const auto x = torch::zeros({2, 3, 1, 4});
  EXPECT_THROW(ops::rope(x, torch::arange(4, at::kLong), 1e4), Error);
  EXPECT_THROW(ops::rope(x, torch::zeros({3}), 1e4), Error);
  EXPECT_THROW(ops::rope(torch::zeros({2, 3, 1, 5}), torch::arange(3, at::kLong), 1e4), Error);
  EXPECT_THROW(ops::rope(x, torch::arange(3, at::kLong), 0.0), Error);
}

}  // namespace
}  // namespace penstock
