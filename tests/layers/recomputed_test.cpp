// Recomputed pieces of a pass: the bits of gradients, the tensors that are kept, and the outputs.
#include "penstock/layers/recomputed.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

class RecomputedPiece : public ::testing::Test {
 protected:
  RecomputedPiece() {
    torch::manual_seed(5);
    for (at::Tensor* const tensor : {&x_, &w_, &v_}) *tensor = torch::randn({8, 8});
    for (const at::Tensor& tensor : {x_, w_, v_}) tensor.requires_grad_();
    piece_ = [this](const std::vector<at::Tensor>& inputs) {
      ++calls_;
      const at::Tensor inner = ops::linear(inputs[0], w_).tanh();
      inner_ = inner.getIntrusivePtr();
      return std::vector<at::Tensor>{ops::linear(inner, v_) + inputs[0], inner.square().mean()};
    };
  }

  /// Gradients of x, w and v, summed over two passes.
  std::vector<at::Tensor> gradients(bool again) {
    for (const at::Tensor& tensor : {x_, w_, v_}) tensor.mutable_grad() = at::Tensor();
    for (int i = 0; i < 2; ++i) {
      const at::Tensor x = x_ * 1.25;  // not a leaf
      const auto out = again ? recomputed(piece_, {x}, {w_, v_}) : piece_({x});
      (out[0].square().sum() + 3 * out[1]).backward();
    }
    return {x_.grad().clone(), w_.grad().clone(), v_.grad().clone()};
  }

  at::Tensor x_, w_, v_;
  Piece piece_;
  int calls_ = 0;
  c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl> inner_{
      at::Tensor().getIntrusivePtr()};
};

TEST_F(RecomputedPiece, HasTheBitsOfThePiece) {
  const auto expected = gradients(false);
  EXPECT_EQ(calls_, 2);
  const auto found = gradients(true);
  EXPECT_EQ(calls_, 6);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
  EXPECT_GT(expected[0].abs().max().item<double>(), 0);
}

TEST_F(RecomputedPiece, KeepsNothingOfTheForwardPass) {
  const auto out = recomputed(piece_, {x_}, {w_, v_});
  EXPECT_TRUE(inner_.expired());
  const auto kept = piece_({x_});
  EXPECT_FALSE(inner_.expired());
}

TEST_F(RecomputedPiece, RefusesASecondDerivative) {
  const Piece cubed = [](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{inputs[0].pow(3)};
  };
  const at::Tensor y = recomputed(cubed, {x_}, {})[0].sum();
  const at::Tensor first = torch::autograd::grad({y}, {x_}, {}, c10::nullopt, true)[0];
  EXPECT_TRUE(first.allclose(3 * x_.detach().square()));
  EXPECT_THROW(torch::autograd::grad({first.sum()}, {x_}), std::runtime_error);
}

TEST_F(RecomputedPiece, TakesOutputsThatNothingIsMadeOf) {
  recomputed(piece_, {x_}, {w_, v_})[1].backward();
  EXPECT_TRUE(w_.grad().defined());
  EXPECT_FALSE(v_.grad().defined());
}

TEST_F(RecomputedPiece, ComputesAgainInThePrecisionOfTheFirstTime) {
  ops::emulate_bf16(!ops::processor_has_bf16());
  std::vector<at::Tensor> by_way;
  for (const bool again : {false, true}) {
    w_.mutable_grad() = at::Tensor();
    at::Tensor sum;
    {
      const ops::PrecisionScope bf16(ops::ProductPrecision::bf16);
      sum = (again ? recomputed(piece_, {x_}, {w_, v_}) : piece_({x_}))[0].square().sum();
    }
    sum.backward();
    by_way.push_back(w_.grad().clone());
  }
  EXPECT_TRUE(by_way[0].equal(by_way[1]));
  EXPECT_FALSE(by_way[0].equal(gradients(false)[1] / 2));
  ops::emulate_bf16(false);
}

}  // namespace
}  // namespace penstock
