// RMSNorm: hand-worked numbers, gradients in f64, the f32 path against the reference.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock {
namespace {

using namespace penstock::testing;

const TensorFunction kNorm = [](const std::vector<at::Tensor>& in) {
  return ops::rms_norm(in[0], in[1], 1e-5);
};

TEST(RmsNorm, WorkedByHand) {
  // mean(3², 4²) = 12.5; with eps 12.5 the root is 5.
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto y =
        ops::rms_norm(torch::tensor({3.0, 4.0}, type), torch::tensor({1.0, 10.0}, type), 12.5);
    EXPECT_NEAR(y[0].item<double>(), 0.6, 1e-6);
    EXPECT_NEAR(y[1].item<double>(), 8.0, 1e-6);
  }
}

TEST(RmsNorm, GradientsOfTheReference) {
  const auto report = check_gradients(kNorm, {normal({3, 2, 7}), normal({7})});
  EXPECT_LT(report.error, 1e-7) << report.where;
}

TEST(RmsNorm, FastPathOnOddShapes) {
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {1}, {1, 1}, {3, 5, 17}, {130, 64}, {2, 33, 256}, {7, 1000}})
    expect_fast_path("rms_norm", "cpu", kNorm, {normal(sizes), normal({sizes.back()})});
}

TEST(RmsNorm, ReadsTransposedInput) {
  const TensorFunction transposed = [](const std::vector<at::Tensor>& in) {
    return ops::rms_norm(in[0].transpose(0, 1), in[1], 1e-5);
  };
  expect_fast_path("rms_norm", "cpu", transposed, {normal({9, 4}), normal({9})});
}

TEST(RmsNorm, Repeats) { expect_repeats(kNorm, {normal({4096, 96}), normal({96})}); }

TEST(RmsNorm, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto results = value_and_gradients(kNorm, {normal({0, 6}), normal({6})}, type);
    EXPECT_EQ(results[0].sizes(), (std::vector<std::int64_t>{0, 6}));
    EXPECT_EQ(results[2].abs().sum().item<double>(), 0);
  }
}

TEST(RmsNorm, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ops::rms_norm(torch::zeros({2, 3}), torch::zeros({4}), 1e-5), Error);
  EXPECT_THROW(ops::rms_norm(torch::zeros({2, 3}), torch::zeros({3}, at::kDouble), 1e-5), Error);
  EXPECT_THROW(ops::rms_norm(torch::zeros({2, 3}, at::kLong), torch::zeros({3}, at::kLong), 1e-5),
               Error);
}

}  // namespace
}  // namespace penstock
