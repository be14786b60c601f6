// Attention with relative positions and products in bf16: against f64 within bounds that follow
// from the roundings, against the reference on odd shapes, and bit for bit on the emulation and
// with any number of threads.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"
#include "tests/ops/product_units.h"

namespace penstock::ops::bf16_relative_attention_test {
namespace {

using penstock::testing::kTwoRoundings;
using penstock::testing::normal;
using penstock::testing::TensorFunction;
using penstock::testing::value_and_gradients;

struct Case {
  std::int64_t batch, memory, length, heads, hd;
  std::int64_t keys() const { return memory + length; }
  std::int64_t width() const { return heads * hd; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(hd)); }
};

TensorFunction attention(const Case& c) {
  return [c](const std::vector<at::Tensor>& x) {
    const PrecisionScope scope(ProductPrecision::bf16);
    return relative_attention(x[0], x[1], x[2], x[3], x[4], c.scale());
  };
}
std::vector<at::Tensor> inputs_of(const Case& c) {
  return {normal({c.batch, c.length, c.width()}), normal({c.batch, c.keys(), 2 * c.width()}),
          normal({c.keys(), c.width()}), normal({c.heads, c.hd}), normal({c.heads, c.hd})};
}

/// An exact value and a bound of its error.
struct Bound {
  at::Tensor value, error;
};

/// One head of one sequence in f64. content and position [T, hd] are q + u and q + v.
struct Head {
  at::Tensor content, position, k, v, r, dy;
  double scale;

  /// Turns x [T, K] from columns by distance into columns by key, with 0 where a key is hidden. The
  /// distance of key j from row t is M + t − j.
  at::Tensor by_key(const at::Tensor& x) const { return x.gather(1, away().clamp_min(0)) * seen(); }
  /// Turns x [T, K] from columns by key, with 0 where a key is hidden, into columns by distance.
  at::Tensor by_distance(const at::Tensor& x) const {
    return torch::zeros_like(x).scatter_add_(1, away().clamp_min(0), x);
  }
  at::Tensor away() const {
    const std::int64_t rows = content.size(0), keys = k.size(0);
    return torch::arange(rows, at::kLong).unsqueeze(1) + (keys - rows) -
           torch::arange(keys, at::kLong);
  }
  at::Tensor seen() const { return away().ge(0).to(at::kDouble); }
};

at::Tensor times(const at::Tensor& a, const at::Tensor& b) { return at::matmul(a, b); }

/// Bounds of y, and of the terms that the head adds to the gradients of q, k, v and r.
struct Bounds {
  Bound y, q, k, v, r;
};
Bounds bounds_of(const Head& x) {
  const double sums = static_cast<double>(x.k.size(0)) * std::pow(2.0, -22);
  const double tile = static_cast<double>(x.k.size(1)) * std::pow(2.0, -21);
  const at::Tensor seen = x.seen();
  const at::Tensor scores =
      x.scale * (times(x.content, x.k.t()) + x.by_key(times(x.position, x.r.t())));
  const at::Tensor p = scores.masked_fill(seen.eq(0), -INFINITY).softmax(1);
  // A score's error is at most δ, so a weight's error is at most a factor of e^2δ. The sum q + u
  // adds one f32 rounding.
  const at::Tensor off =
      (kTwoRoundings + tile) * x.scale * seen *
      (times(x.content.abs(), x.k.abs().t()) + x.by_key(times(x.position.abs(), x.r.abs().t())));
  const at::Tensor e = (2 * off.amax(1, true) + 1e-5).exp() - 1;
  const at::Tensor weighed = e + (1 + e) * kTwoRoundings + sums;  // error of Σ weight·number
  const at::Tensor y = times(p, x.v), y_error = weighed * times(p, x.v.abs());
  const at::Tensor g = times(x.dy, x.v.t()), inner = (x.dy * y).sum(1, true);
  const at::Tensor ds = x.scale * p * (g - inner);
  const at::Tensor g_error = (kTwoRoundings + tile) * times(x.dy.abs(), x.v.abs().t()) +
                             (x.dy.abs() * y_error).sum(1, true);
  const at::Tensor before = e * ds.abs() + x.scale * (1 + e) * p * g_error;
  const at::Tensor ds_error =
      before + (kTwoRoundings + sums) * (ds.abs() + before);  // and its rounding
  const at::Tensor far = x.by_distance(ds), far_error = x.by_distance(ds_error);
  const auto gradient = [](const at::Tensor& slopes, const at::Tensor& error,
                           const at::Tensor& by) {
    return Bound{times(slopes, by), times(error, by.abs())};
  };
  const Bound content = gradient(ds, ds_error, x.k), position = gradient(far, far_error, x.r);
  return {.y = {y, y_error},
          .q = {content.value + position.value, content.error + position.error},
          .k = gradient(ds.t(), ds_error.t(), x.content),
          .v = {times(p.t(), x.dy), times((p * weighed).t(), x.dy.abs())},
          .r = gradient(far.t(), far_error.t(), x.position)};
}

class Bf16RelativeAttention : public penstock::testing::WithProductUnit {
 protected:
  void SetUp() override {
    WithProductUnit::SetUp();
    set_threads(2);
    torch::manual_seed(6);
  }
};
INSTANTIATE_TEST_SUITE_P(By, Bf16RelativeAttention, penstock::testing::kProductUnits,
                         penstock::testing::unit_name);

void expect_within(const at::Tensor& found, const Bound& wanted, const char* what) {
  const at::Tensor ratio = (found.to(at::kDouble) - wanted.value).abs() / (wanted.error + 1e-7);
  EXPECT_LE(ratio.max().item<double>(), 1) << what;
  EXPECT_GT(ratio.max().item<double>(), 0.001) << what;  // products in f32 would be closer
}

TEST_P(Bf16RelativeAttention, IsWithinItsRoundings) {
  // With one sequence and one head, the head's gradient of r is the operator's gradient of r.
  for (const Case& c : {Case{1, 0, 40, 1, 16}, Case{1, 37, 150, 1, 32}}) {
    std::vector<at::Tensor> x;
    for (const at::Tensor& one : inputs_of(c))
      x.push_back(one.to(at::kFloat).set_requires_grad(true));
    const at::Tensor dy = torch::randn({1, c.length, c.hd});
    reset_dispatch_counts();
    const at::Tensor y = attention(c)(x);
    y.backward(dy);
    EXPECT_EQ(dispatch_counts(),
              (std::map<std::string, std::int64_t>{{"relative_attention/bf16", 1},
                                                   {"relative_attention.backward/bf16", 1}}));
    const auto wide = [](const at::Tensor& a) { return a.detach().to(at::kDouble); };
    const at::Tensor q = wide(x[0])[0], kv = wide(x[1])[0];
    const Bounds wanted = bounds_of({.content = q + wide(x[3]),
                                     .position = q + wide(x[4]),
                                     .k = kv.narrow(1, 0, c.hd),
                                     .v = kv.narrow(1, c.hd, c.hd),
                                     .r = wide(x[2]),
                                     .dy = wide(dy)[0],
                                     .scale = c.scale()});
    expect_within(y.detach()[0], wanted.y, "y");
    expect_within(x[0].grad()[0], wanted.q, "q");
    expect_within(x[1].grad()[0].narrow(1, 0, c.hd), wanted.k, "k");
    expect_within(x[1].grad()[0].narrow(1, c.hd, c.hd), wanted.v, "v");
    expect_within(x[2].grad(), wanted.r, "r");
  }
}

TEST_P(Bf16RelativeAttention, IsNearTheReferenceOnOddShapes) {
  // Fewer and more rows than a block of 64, no memory and memories up to longer than the sequence,
  // and numbers of keys that are no multiple of 16.
  for (const Case& c : std::vector<Case>{{1, 0, 1, 1, 2},
                                         {2, 3, 5, 2, 8},
                                         {1, 0, 64, 2, 16},
                                         {6, 64, 64, 2, 16},
                                         {2, 37, 131, 3, 24},
                                         {1, 300, 70, 1, 64},
                                         {5, 16, 200, 2, 20},
                                         {1, 128, 1, 4, 32},
                                         {1, 63, 129, 1, 130}}) {
    SCOPED_TRACE(penstock::concat(c.memory, " + ", c.length, " x ", c.heads, " x ", c.hd));
    reset_dispatch_counts();
    penstock::testing::expect_near_reference(attention(c), inputs_of(c));
    EXPECT_EQ(dispatch_counts().at("relative_attention.backward/bf16"), 1);
  }
}

TEST_P(Bf16RelativeAttention, HeadsOfOddWidthTheReferenceTakes) {
  const Case c{1, 4, 9, 2, 5};
  reset_dispatch_counts();
  value_and_gradients(attention(c), inputs_of(c), at::kFloat);
  EXPECT_EQ(dispatch_counts(),
            (std::map<std::string, std::int64_t>{{"relative_attention/reference", 1},
                                                 {"relative_attention.backward/reference", 1}}));
}

TEST_P(Bf16RelativeAttention, RepeatsBitwiseWithAnyNumberOfThreads) {
  const Case c{3, 50, 130, 3, 32};
  penstock::testing::expect_repeats(attention(c), inputs_of(c));
}

void expect_bits_of(ProductUnit unit, ProductUnit emulation) {
  torch::manual_seed(7);
  for (const Case& c : {Case{2, 20, 77, 2, 10}, Case{1, 64, 200, 1, 128}})
    penstock::testing::expect_bits_of_emulation(unit, emulation, attention(c), inputs_of(c));
}
TEST(Bf16RelativeAttentionEmulation, HasTheBitsOfAvx512) {
  expect_bits_of(ProductUnit::avx512, ProductUnit::emulated_avx512);
}
TEST(Bf16RelativeAttentionEmulation, HasTheBitsOfAmx) {
  expect_bits_of(ProductUnit::amx, ProductUnit::emulated_amx);
}

}  // namespace
}  // namespace penstock::ops::bf16_relative_attention_test
