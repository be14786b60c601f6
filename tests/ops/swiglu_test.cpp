// The gated unit: numbers worked by hand, gradients in f64, the f32 path against the reference.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock::swiglu_test {
namespace {

using namespace penstock::testing;

const TensorFunction kSwiglu = [](const std::vector<at::Tensor>& in) { return ops::swiglu(in[0]); };

TEST(Swiglu, WorkedByHand) {
  // σ(ln 3) = 3/4, so silu(ln 3)·8 = 6 ln 3. The gate of the second column is 0.
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto y = ops::swiglu(torch::tensor({std::log(3.0), 0.0, 8.0, 5.0}, at::kDouble).to(type));
    EXPECT_NEAR(y[0].item<double>(), 6 * std::log(3.0), 1e-6);
    EXPECT_NEAR(y[1].item<double>(), 0.0, 1e-9);
  }
}

TEST(Swiglu, GradientsOfTheReference) {
  const auto report = check_gradients(kSwiglu, {normal({4, 10}) * 3});
  EXPECT_LT(report.error, 1e-7) << report.where;
}

TEST(Swiglu, FastPathOnOddShapes) {
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{2}, {1, 2}, {3, 5, 34}, {129, 64}, {40, 2048}})
    expect_fast_path("swiglu", "cpu", kSwiglu, {normal(sizes) * 4});
}

TEST(Swiglu, LargeGatesSaturate) {
  const auto y = ops::swiglu(torch::tensor({-200.0f, 200.0f, -90.0f, 1.0f, 1.0f, 1.0f}));
  EXPECT_NEAR(y[0].item<double>(), 0.0, 1e-30);
  EXPECT_EQ(y[1].item<double>(), 200.0);
  EXPECT_NEAR(y[2].item<double>(), 0.0, 1e-30);
}

TEST(Swiglu, NotANumberStaysOne) {
  EXPECT_TRUE(ops::swiglu(torch::tensor({NAN, 1.0f})).isnan().item<bool>());
}

TEST(Swiglu, Repeats) { expect_repeats(kSwiglu, {normal({4096, 96})}); }

TEST(Swiglu, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat})
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{0, 6}, {3, 0}}) {
      const auto results = value_and_gradients(kSwiglu, {normal(sizes)}, type);
      EXPECT_EQ(results[0].numel(), 0);
    }
}

TEST(Swiglu, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ops::swiglu(torch::zeros({2, 3})), Error);
  EXPECT_THROW(ops::swiglu(torch::zeros({2, 4}, at::kLong)), Error);
}

}  // namespace
}  // namespace penstock::swiglu_test
