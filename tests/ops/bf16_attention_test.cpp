// Causal attention with products in bf16: against f64 within bounds that follow from the roundings,
// against the reference on odd shapes, and bit for bit on the emulation and with any number of
// threads.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"
#include "tests/ops/product_units.h"

namespace penstock::ops::bf16_attention_test {
namespace {

using penstock::testing::kTwoRoundings;
using penstock::testing::normal;
using penstock::testing::TensorFunction;
using penstock::testing::value_and_gradients;

struct Case {
  std::int64_t batch, length, heads, kv_heads, hd;
  bool rotated = false, borders = false;
};

TensorFunction attention(const Case& c) {
  return [c](const std::vector<at::Tensor>& x) {
    const PrecisionScope scope(ProductPrecision::bf16);
    std::optional<at::Tensor> rotation, start;
    if (c.rotated)
      rotation = rotation_table(c.length, c.hd, 100.0, x[0].options().requires_grad(false));
    if (c.borders)
      start = torch::arange(c.length).div(23, "floor").mul(23).expand({c.batch, c.length});
    return causal_attention(x[0], c.heads, c.kv_heads, 1 / std::sqrt(static_cast<double>(c.hd)),
                            rotation, false, start);
  };
}
std::vector<at::Tensor> inputs_of(const Case& c) {
  return {normal({c.batch, c.length, (c.heads + 2 * c.kv_heads) * c.hd})};
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) { return at::matmul(a, b); }

/// Exact values, and bounds of their errors, of y and of the gradients of q, k and v, [B, H, T,
/// hd].
struct Bounds {
  at::Tensor value, error;
};
std::vector<Bounds> bounds_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& dy, double scale) {
  const auto length = static_cast<double>(q.size(2)), width = static_cast<double>(q.size(3));
  const double sums = length * std::pow(2.0, -22), tile = width * std::pow(2.0, -22);
  const at::Tensor allowed = torch::ones({q.size(2), q.size(2)}, at::kBool).tril();
  const at::Tensor scores = scale * product(q, k.transpose(2, 3));
  const at::Tensor p = scores.masked_fill(~allowed, -INFINITY).softmax(-1);
  // A score's error is at most δ, so a weight's error is at most a factor of e^2δ. Computing 2^x
  // adds another 1e-6.
  const at::Tensor off =
      (kTwoRoundings + tile) * scale * product(q.abs(), k.abs().transpose(2, 3)) * allowed;
  const at::Tensor r = (2 * off.amax(-1, true) + 1e-5).exp() - 1;
  const at::Tensor weighed = r + (1 + r) * kTwoRoundings + sums;  // error of Σ weight·number
  const at::Tensor y = product(p, v), y_error = weighed * product(p, v.abs());
  const at::Tensor dv = product(p.transpose(2, 3), dy),
                   dv_error = product((p * weighed).transpose(2, 3), dy.abs());
  const at::Tensor g = product(dy, v.transpose(2, 3)), inner = (dy * y).sum(-1, true);
  const at::Tensor ds = p * (g - inner);
  const at::Tensor g_error = (kTwoRoundings + tile) * product(dy.abs(), v.abs().transpose(2, 3)) +
                             (dy.abs() * y_error).sum(-1, true);
  const at::Tensor before = r * ds.abs() + (1 + r) * p * g_error;
  const at::Tensor ds_error =
      before + (kTwoRoundings + sums) * (ds.abs() + before);  // and its rounding
  const auto gradient = [&](const at::Tensor& slopes, const at::Tensor& error,
                            const at::Tensor& factor) {
    return Bounds{scale * product(slopes, factor), scale * product(error, factor.abs())};
  };
  return {{y, y_error},
          gradient(ds, ds_error, k),
          gradient(ds.transpose(2, 3), ds_error.transpose(2, 3), q),
          {dv, dv_error}};
}

class Bf16Attention : public penstock::testing::WithProductUnit {
 protected:
  void SetUp() override {
    WithProductUnit::SetUp();
    set_threads(2);
    torch::manual_seed(6);
  }
};
INSTANTIATE_TEST_SUITE_P(By, Bf16Attention, penstock::testing::kProductUnits,
                         penstock::testing::unit_name);

TEST_P(Bf16Attention, IsWithinItsRoundings) {
  for (const Case& c : {Case{1, 40, 1, 1, 16}, Case{2, 150, 3, 3, 32}}) {
    const at::Tensor qkv = inputs_of(c)[0].to(at::kFloat).set_requires_grad(true);
    const at::Tensor dy = torch::randn({c.batch, c.length, c.heads * c.hd});
    reset_dispatch_counts();
    const at::Tensor y = attention(c)({qkv});
    y.backward(dy);
    EXPECT_EQ(dispatch_counts(),
              (std::map<std::string, std::int64_t>{{"causal_attention/bf16", 1},
                                                   {"causal_attention.backward/bf16", 1}}));
    const auto heads = [&](const at::Tensor& x, std::int64_t part) {  // [B, H, T, hd]
      return x.detach()
          .to(at::kDouble)
          .view({c.batch, c.length, -1, c.heads, c.hd})
          .select(2, part)
          .transpose(1, 2);
    };
    const auto wanted = bounds_of(heads(qkv, 0), heads(qkv, 1), heads(qkv, 2), heads(dy, 0),
                                  1 / std::sqrt(static_cast<double>(c.hd)));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const at::Tensor found =
          i == 0 ? heads(y, 0) : heads(qkv.grad(), static_cast<std::int64_t>(i) - 1);
      const at::Tensor ratio = (found - wanted[i].value).abs() / (wanted[i].error + 1e-7);
      EXPECT_LE(ratio.max().item<double>(), 1) << i;
      EXPECT_GT(ratio.max().item<double>(), 0.005) << i;  // products in f32 would be closer
    }
  }
}

TEST_P(Bf16Attention, IsNearTheReferenceOnOddShapes) {
  for (const Case& c : std::vector<Case>{{1, 1, 1, 1, 8},
                                         {2, 7, 4, 2, 2, true},
                                         {2, 31, 4, 2, 10, true, true},
                                         {1, 97, 4, 4, 96},
                                         {1, 100, 6, 2, 20, false, true},
                                         {3, 130, 4, 2, 32, true, true},
                                         {1, 200, 2, 1, 128, true},
                                         {1, 70, 5, 1, 6},
                                         {1, 45, 16, 1, 8, true}}) {
    SCOPED_TRACE(penstock::concat(c.length, " x ", c.heads, " / ", c.kv_heads, " x ", c.hd));
    reset_dispatch_counts();
    penstock::testing::expect_near_reference(attention(c), inputs_of(c));
    EXPECT_EQ(dispatch_counts().at("causal_attention.backward/bf16"), 1);
  }
}

TEST_P(Bf16Attention, WhatThePanelsDoNotHoldTheReferenceTakes) {
  for (const Case& c : {Case{1, 9, 2, 2, 5}, Case{1, 5, 70, 1, 4}}) {
    reset_dispatch_counts();
    value_and_gradients(attention(c), inputs_of(c), at::kFloat);
    EXPECT_EQ(dispatch_counts(),
              (std::map<std::string, std::int64_t>{{"causal_attention/reference", 1},
                                                   {"causal_attention.backward/reference", 1}}));
  }
}

TEST_P(Bf16Attention, RepeatsBitwiseWithAnyNumberOfThreads) {
  const Case c{3, 130, 4, 2, 32, true, true};
  penstock::testing::expect_repeats(attention(c), inputs_of(c));
}

void expect_bits_of(ProductUnit unit, ProductUnit emulation) {
  torch::manual_seed(7);
  for (const Case& c : {Case{2, 77, 4, 2, 10, true, true}, Case{1, 200, 2, 1, 128, true}})
    penstock::testing::expect_bits_of_emulation(unit, emulation, attention(c), inputs_of(c));
}
TEST(Bf16AttentionEmulation, HasTheBitsOfAvx512) {
  expect_bits_of(ProductUnit::avx512, ProductUnit::emulated_avx512);
}
TEST(Bf16AttentionEmulation, HasTheBitsOfAmx) {
  expect_bits_of(ProductUnit::amx, ProductUnit::emulated_amx);
}

}  // namespace
}  // namespace penstock::ops::bf16_attention_test
