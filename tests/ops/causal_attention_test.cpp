// Causal attention: hand-worked numbers, gradients in f64, the fused f32 path against the
// reference.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock {
namespace {

using namespace penstock::testing;

TensorFunction attention(double scale) {
  return [scale](const std::vector<at::Tensor>& in) {
    return in.size() > 3 ? ops::causal_attention(in[0], in[1], in[2], scale, in[3])
                         : ops::causal_attention(in[0], in[1], in[2], scale);
  };
}

/// Document borders every `period` positions, shifted by the sequence's number.
at::Tensor borders(std::int64_t batch, std::int64_t length, std::int64_t period) {
  auto start = torch::zeros({batch, length}, at::kLong);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < length; ++t)
      start[b][t] = std::max<std::int64_t>(0, (t + b) / period * period - b);
  return start;
}

TEST(CausalAttention, WorkedByHand) {
  // One head, hd = 1, scale 1.  Row 0 reads only itself.  Row 1 has q = 1 and scores (0, ln 3), so
  // weights (1/4, 3/4) on the values (2, 6): 5.
  const auto q = torch::tensor({5.0, 1.0}, at::kDouble).view({1, 2, 1, 1});
  const auto k = torch::tensor({0.0, std::log(3.0)}, at::kDouble).view({1, 2, 1, 1});
  const auto v = torch::tensor({2.0, 6.0}, at::kDouble).view({1, 2, 1, 1});
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto y = ops::causal_attention(q.to(type), k.to(type), v.to(type), 1.0);
    EXPECT_NEAR(y[0][0][0][0].item<double>(), 2.0, 1e-6);
    EXPECT_NEAR(y[0][1][0][0].item<double>(), 5.0, 1e-6);
    const auto start = torch::tensor({0, 1}, at::kLong).view({1, 2});
    const auto split = ops::causal_attention(q.to(type), k.to(type), v.to(type), 1.0, start);
    EXPECT_NEAR(split[0][1][0][0].item<double>(), 6.0, 1e-6);
  }
}

TEST(CausalAttention, GradientsOfTheReference) {
  const auto q = normal({2, 5, 4, 3}), k = normal({2, 5, 2, 3}), v = normal({2, 5, 2, 3});
  auto report = check_gradients(attention(0.7), {q, k, v});
  EXPECT_LT(report.error, 1e-7) << report.where;
  report = check_gradients(attention(0.7), {q, k, v, borders(2, 5, 3)});
  EXPECT_LT(report.error, 1e-7) << report.where;
}

TEST(CausalAttention, FastPathOnOddShapes) {
  struct Shape {
    std::int64_t batch, length, heads, kv_heads, hd;
  };
  for (const auto& s : std::vector<Shape>{{1, 1, 1, 1, 8},
                                          {2, 31, 4, 2, 8},
                                          {1, 33, 3, 3, 32},
                                          {2, 64, 2, 1, 64},
                                          {1, 97, 4, 4, 96},
                                          {3, 130, 4, 2, 32},
                                          {1, 200, 2, 1, 128},
                                          {2, 17, 2, 2, 1},
                                          {1, 70, 5, 1, 6}}) {
    SCOPED_TRACE(
        concat("B=", s.batch, " T=", s.length, " H=", s.heads, " Hkv=", s.kv_heads, " hd=", s.hd));
    const auto q = normal({s.batch, s.length, s.heads, s.hd});
    const auto k = normal({s.batch, s.length, s.kv_heads, s.hd});
    const auto v = normal({s.batch, s.length, s.kv_heads, s.hd});
    const double scale = 1 / std::sqrt(static_cast<double>(s.hd));
    expect_fast_path("causal_attention", "cpu", attention(scale), {q, k, v});
    expect_fast_path("causal_attention", "cpu", attention(scale),
                     {q, k, v, borders(s.batch, s.length, 23)});
    expect_fast_path("causal_attention", "cpu", attention(-scale), {q, k, v});
  }
}

TEST(CausalAttention, ReadsSlicesOfAFusedProjection) {
  const TensorFunction fused = [](const std::vector<at::Tensor>& in) {
    const auto heads = in[0].view({2, 40, 8, 16});
    return ops::causal_attention(heads.narrow(2, 0, 4), heads.narrow(2, 4, 2),
                                 heads.narrow(2, 6, 2), 0.25);
  };
  expect_fast_path("causal_attention", "cpu", fused, {normal({2, 40, 128})});
}

TEST(CausalAttention, LargeScoresDoNotOverflow) {
  const auto q = normal({1, 80, 2, 16}) * 40, k = normal({1, 80, 2, 16}) * 40;
  const auto y =
      ops::causal_attention(q.to(at::kFloat), k.to(at::kFloat), torch::ones({1, 80, 2, 16}), 1.0);
  EXPECT_LT(relative_error(y, torch::ones_like(y)), 1e-5);
}

TEST(CausalAttention, Repeats) {
  // 16 × 256 = 4096 rows.
  expect_repeats(attention(0.25),
                 {normal({16, 256, 4, 16}), normal({16, 256, 2, 16}), normal({16, 256, 2, 16})});
}

TEST(CausalAttention, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat})
    for (const auto& [batch, length] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {2, 0}}) {
      const auto results =
          value_and_gradients(attention(1.0),
                              {normal({batch, length, 2, 8}), normal({batch, length, 1, 8}),
                               normal({batch, length, 1, 8})},
                              type);
      EXPECT_EQ(results[0].numel(), 0);
    }
}

TEST(CausalAttention, RefusesWhatDoesNotFit) {
  const auto q = torch::zeros({1, 4, 3, 8}), k = torch::zeros({1, 4, 2, 8});
  EXPECT_THROW(ops::causal_attention(q, k, k, 1.0), Error);
  const auto ok = torch::zeros({1, 4, 2, 8});
  EXPECT_THROW(ops::causal_attention(q.to(at::kDouble), ok, ok, 1.0), Error);
  const auto late = torch::tensor({0, 2, 2, 2}, at::kLong).view({1, 4});
  EXPECT_THROW(ops::causal_attention(ok, ok, ok, 1.0, late), Error);
  EXPECT_THROW(ops::causal_attention(ok, ok, ok, 1.0, late - 1), Error);
}

}  // namespace
}  // namespace penstock
