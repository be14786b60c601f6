// Cross-entropy: hand-worked numbers, gradients in f64, the f32 path against the reference.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock {
namespace {

using namespace penstock::testing;

const TensorFunction kLoss = [](const std::vector<at::Tensor>& in) {
  return ops::cross_entropy(in[0], in[1]);
};

at::Tensor targets(std::int64_t rows, std::int64_t width) {
  return torch::randint(0, width, {rows}, at::kLong);
}

TEST(CrossEntropy, WorkedByHand) {
  // Probabilities 1/10, 2/10, 7/10: the loss of the last is ln(10/7); the gradient p − onehot.
  for (const auto type : {at::kDouble, at::kFloat}) {
    auto logits = torch::tensor({std::log(1.0), std::log(2.0), std::log(7.0)}, at::kDouble)
                      .view({1, 3})
                      .to(type)
                      .set_requires_grad(true);
    const auto loss = ops::cross_entropy(logits, torch::tensor({2}, at::kLong));
    EXPECT_NEAR(loss.item<double>(), std::log(10.0 / 7.0), 1e-6);
    (loss * 10).sum().backward();
    EXPECT_NEAR(logits.grad()[0][0].item<double>(), 1.0, 1e-5);
    EXPECT_NEAR(logits.grad()[0][1].item<double>(), 2.0, 1e-5);
    EXPECT_NEAR(logits.grad()[0][2].item<double>(), -3.0, 1e-5);
  }
}

TEST(CrossEntropy, GradientsOfTheReference) {
  const auto report = check_gradients(kLoss, {normal({5, 7}) * 3, targets(5, 7)});
  EXPECT_LT(report.error, 1e-7) << report.where;
}

TEST(CrossEntropy, FastPathOnOddShapes) {
  for (const auto& [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {3, 2}, {65, 33}, {4, 4097}, {2, 51200}, {129, 256}})
    expect_fast_path("cross_entropy", "cpu", kLoss,
                     {normal({rows, width}) * 4, targets(rows, width)});
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  const auto logits = torch::tensor({1e4f, -1e4f, 0.0f}).view({1, 3});
  EXPECT_NEAR(ops::cross_entropy(logits, torch::tensor({1}, at::kLong)).item<double>(), 2e4, 1e-2);
  const auto masked = torch::tensor({2.0f, -std::numeric_limits<float>::infinity()}).view({1, 2});
  EXPECT_NEAR(ops::cross_entropy(masked, torch::tensor({0}, at::kLong)).item<double>(), 0, 1e-6);
}

TEST(CrossEntropy, NotANumberStaysOne) {
  const auto logits = torch::tensor({1.0f, NAN, 0.0f}).view({1, 3});
  EXPECT_TRUE(std::isnan(ops::cross_entropy(logits, torch::tensor({0}, at::kLong)).item<double>()));
}

TEST(CrossEntropy, Repeats) { expect_repeats(kLoss, {normal({4096, 100}), targets(4096, 100)}); }

TEST(CrossEntropy, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat})
    EXPECT_EQ(value_and_gradients(kLoss, {normal({0, 5}), targets(0, 5)}, type)[0].numel(), 0);
}

TEST(CrossEntropy, RefusesTargetsOutsideTheVocabulary) {
  const auto logits = torch::zeros({2, 3});
  EXPECT_THROW(ops::cross_entropy(logits, torch::tensor({0, 3}, at::kLong)), Error);
  EXPECT_THROW(ops::cross_entropy(logits, torch::tensor({-1, 0}, at::kLong)), Error);
  EXPECT_THROW(ops::cross_entropy(logits, torch::zeros({3}, at::kLong)), Error);
  EXPECT_THROW(ops::cross_entropy(logits, torch::zeros({2})), Error);
  EXPECT_THROW(ops::cross_entropy(torch::zeros({2, 0}), torch::zeros({2}, at::kLong)), Error);
}

}  // namespace
}  // namespace penstock
