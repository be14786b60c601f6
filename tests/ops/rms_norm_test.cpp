// RMSNorm, alone and after a residual addition: numbers worked by hand, gradients in f64, and the
// f32 path against the reference.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock::rms_norm_test {
namespace {

using namespace penstock::testing;

const TensorFunction kNorm = [](const std::vector<at::Tensor>& in) {
  return ops::rms_norm(in[0], in[1], 1e-5);
};

/// Both results side by side, so that both have gradients.
const TensorFunction kAddNorm = [](const std::vector<at::Tensor>& in) {
  const auto [h, n] = ops::add_rms_norm(in[0], in[1], in[2], 1e-5);
  return torch::cat({h, n}, -1);
};

TEST(RmsNorm, WorkedByHand) {
  // mean(3², 4²) = 12.5. With eps = 12.5 the root is 5.
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

TEST(AddRmsNorm, WorkedByHand) {
  // h = (3, 4), as above.
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto [h, n] =
        ops::add_rms_norm(torch::tensor({1.0, 5.0}, type), torch::tensor({2.0, -1.0}, type),
                          torch::tensor({1.0, 10.0}, type), 12.5);
    EXPECT_TRUE(torch::equal(h, torch::tensor({3.0, 4.0}, type)));
    EXPECT_NEAR(n[0].item<double>(), 0.6, 1e-6);
    EXPECT_NEAR(n[1].item<double>(), 8.0, 1e-6);
  }
}

TEST(AddRmsNorm, GradientsOfTheReference) {
  const auto report =
      check_gradients(kAddNorm, {normal({3, 2, 7}), normal({3, 2, 7}), normal({7})});
  EXPECT_LT(report.error, 1e-7) << report.where;
}

TEST(AddRmsNorm, FastPathOnOddShapes) {
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {1}, {1, 1}, {3, 5, 17}, {130, 64}, {2, 33, 256}, {7, 1000}})
    expect_fast_path("add_rms_norm", "cpu", kAddNorm,
                     {normal(sizes), normal(sizes), normal({sizes.back()})});
}

TEST(AddRmsNorm, EitherResultMayGoUnused) {
  for (const auto type : {at::kDouble, at::kFloat})
    for (const int used : {0, 1}) {
      const auto in = [&](std::vector<std::int64_t> sizes) {
        return normal(sizes).to(type).set_requires_grad(true);
      };
      const auto x = in({5, 9}), delta = in({5, 9}), gain = in({9});
      const auto [h, n] = ops::add_rms_norm(x, delta, gain, 1e-5);
      (used ? n : h).sum().backward();
      const auto y = x.detach() + delta.detach();
      auto expected = torch::ones_like(y);
      if (used) {
        const auto wide = y.clone().set_requires_grad(true);
        ops::rms_norm(wide, gain.detach(), 1e-5).sum().backward();
        expected = wide.grad();
      }
      EXPECT_LT(relative_error(x.grad(), expected), 1e-6);
      EXPECT_TRUE(torch::equal(x.grad(), delta.grad()));
      EXPECT_EQ(gain.grad().defined(), used == 1);
    }
}

TEST(AddRmsNorm, Repeats) {
  expect_repeats(kAddNorm, {normal({4096, 96}), normal({4096, 96}), normal({96})});
}

TEST(AddRmsNorm, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto results =
        value_and_gradients(kAddNorm, {normal({0, 6}), normal({0, 6}), normal({6})}, type);
    EXPECT_EQ(results[0].sizes(), (std::vector<std::int64_t>{0, 12}));
    EXPECT_EQ(results[3].abs().sum().item<double>(), 0);
  }
}

TEST(AddRmsNorm, RefusesWhatDoesNotFit) {
  const auto x = torch::zeros({2, 3}), gain = torch::zeros({3});
  EXPECT_THROW(ops::add_rms_norm(x, torch::zeros({3}), gain, 1e-5), Error);
  EXPECT_THROW(ops::add_rms_norm(x, x, torch::zeros({4}), 1e-5), Error);
  EXPECT_THROW(ops::add_rms_norm(x, x.to(at::kDouble), gain, 1e-5), Error);
}

}  // namespace
}  // namespace penstock::rms_norm_test
