#include "penstock/finetune/head.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// A head of width 2 with three classes, in f64, with the numbers of the calculation below.
std::shared_ptr<ClassifierHead> hand_head() {
  torch::NoGradGuard no_grad;
  auto head = std::make_shared<ClassifierHead>(2, 3, 0.5, 0.02, 1);
  head->to(torch::kDouble);
  auto parameters = head->named_parameters();
  const auto set = [&](const char* name, const at::Tensor& value) {
    parameters[name].copy_(value);
  };
  set("dense_weight", torch::tensor({{0.5, -0.25}, {0.0, 0.1}}, torch::kDouble));
  set("dense_bias", torch::tensor({0.0, 0.3}, torch::kDouble));
  set("out_weight", torch::tensor({{1.0, 2.0}, {0.0, -1.0}, {3.0, 0.5}}, torch::kDouble));
  set("out_bias", torch::tensor({0.1, 0.0, -0.2}, torch::kDouble));
  return head;
}

TEST(ClassifierHead, AgreesWithNumbersWorkedOutByHand) {
  const auto head = hand_head();
  // W1 h + b1 = (0.5 - 0.5, 0.2 + 0.3) = (0, 0.5); tanh 0.5 = 0.46211715726000975.
  const at::Tensor h = torch::tensor({{1.0, 2.0}}, torch::kDouble);
  const at::Tensor wanted = torch::tensor(
      {{0.1 + 2 * 0.46211715726000975, -0.46211715726000975, 0.5 * 0.46211715726000975 - 0.2}},
      torch::kDouble);
  EXPECT_TRUE(torch::allclose(head->forward(h, std::nullopt), wanted, 1e-12, 1e-12));
  EXPECT_EQ(head->classes(), 3);
}

TEST(ClassifierHead, DropsAndScalesInTheMiddleWhenGivenASeed) {
  const auto head = hand_head();
  const at::Tensor h = torch::ones({200, 2}, torch::kDouble);
  const at::Tensor a = head->forward(h, 7), b = head->forward(h, 7);
  EXPECT_TRUE(torch::equal(a, b));
  EXPECT_FALSE(torch::equal(a, head->forward(h, 8)));
  // Dropout sets each of tanh's two entries to 0 or doubles it, so there are exactly four kinds of
  // rows.
  const double x = std::tanh(0.25), y = std::tanh(0.4);
  std::set<int> kinds;
  for (std::int64_t row = 0; row < 200; ++row) {
    int kind = -1;
    for (int bits = 0; bits < 4; ++bits) {
      const double p = bits & 1 ? 2 * x : 0, q = bits & 2 ? 2 * y : 0;
      if (std::abs(a[row][0].item<double>() - (p + 2 * q + 0.1)) < 1e-12) kind = bits;
    }
    ASSERT_GE(kind, 0) << row;
    kinds.insert(kind);
  }
  EXPECT_EQ(kinds.size(), 4u);
}

TEST(ClassifierHead, GradientsAgreeWithFiniteDifferences) {
  const auto head = hand_head();
  at::Tensor h = torch::tensor({{0.3, -0.7}, {1.1, 0.2}}, torch::kDouble).requires_grad_(true);
  const at::Tensor weights = torch::tensor({{0.2, -1.0, 0.4}, {0.7, 0.1, -0.3}}, torch::kDouble);
  const auto value = [&] { return (head->forward(h, 3) * weights).sum(); };
  value().backward();
  auto tensors = head->parameters();
  tensors.push_back(h);
  for (auto& tensor : tensors) {
    torch::NoGradGuard no_grad;
    const at::Tensor flat = tensor.view(-1), grad = tensor.grad().view(-1);
    for (std::int64_t i = 0; i < flat.size(0); ++i) {
      constexpr double step = 1e-6;
      flat[i] += step;
      const double above = value().item<double>();
      flat[i] -= 2 * step;
      const double below = value().item<double>();
      flat[i] += step;
      EXPECT_NEAR(grad[i].item<double>(), (above - below) / (2 * step), 1e-8);
    }
  }
}

TEST(ClassifierHead, StartsFromItsSeedAlone) {
  const auto weight = [](std::uint64_t seed) {
    return ClassifierHead(64, 5, 0, 0.02, seed).named_parameters()["dense_weight"].clone();
  };
  EXPECT_TRUE(torch::equal(weight(1), weight(1)));
  EXPECT_FALSE(torch::equal(weight(1), weight(2)));
  EXPECT_NEAR(weight(1).std().item<double>(), 0.02, 0.002);
  EXPECT_THROW(ClassifierHead(4, 1, 0, 0.02, 1), Error);
}

}  // namespace
}  // namespace penstock
