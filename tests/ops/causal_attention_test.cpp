// Causal attention: hand-worked numbers, gradients in f64, the fused f32 path against the
// reference.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"
#include "tests/ops/random_shape.h"

namespace penstock::causal_attention_test {
namespace {

using namespace penstock::testing;

struct Case {
  std::int64_t batch, length, heads, kv_heads, hd;
  at::Tensor qkv() const { return normal({batch, length, (heads + 2 * kv_heads) * hd}); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(hd)); }
};

enum class Pairs { kNone, kHalves, kAdjacent };

/// causal_attention of in[0]. Where in[1] is given, it is `start`.
TensorFunction attention(const Case& c, double scale, Pairs pairs = Pairs::kNone) {
  return [=](const std::vector<at::Tensor>& in) {
    std::optional<at::Tensor> rotation, start;
    if (pairs != Pairs::kNone)
      rotation = ops::rotation_table(c.length, c.hd, 100.0, in[0].options());
    if (in.size() > 1) start = in[1];
    return ops::causal_attention(in[0], c.heads, c.kv_heads, scale, rotation,
                                 pairs == Pairs::kAdjacent, start);
  };
}

/// `start` with a document border every `period` positions, shifted by the sequence's number.
at::Tensor borders(std::int64_t batch, std::int64_t length, std::int64_t period) {
  auto start = torch::zeros({batch, length}, at::kLong);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < length; ++t)
      start[b][t] = std::max<std::int64_t>(0, (t + b) / period * period - b);
  return start;
}

TEST(CausalAttention, WorkedByHand) {
  // One head, hd = 1, scale 1. Each row holds q, k, v. Row 0 reads only itself. Row 1 has q = 1 and
  // scores (0, ln 3), so its weights are (1/4, 3/4) on the values (2, 6), and its result is 5.
  const auto qkv = torch::tensor({5.0, 0.0, 2.0, 1.0, std::log(3.0), 6.0}, at::kDouble);
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto packed = qkv.to(type).view({1, 2, 3});
    const auto y = ops::causal_attention(packed, 1, 1, 1.0);
    EXPECT_NEAR(y[0][0][0].item<double>(), 2.0, 1e-6);
    EXPECT_NEAR(y[0][1][0].item<double>(), 5.0, 1e-6);
    const auto start = torch::tensor({0, 1}, at::kLong).view({1, 2});
    const auto split = ops::causal_attention(packed, 1, 1, 1.0, std::nullopt, false, start);
    EXPECT_NEAR(split[0][1][0].item<double>(), 6.0, 1e-6);
  }
}

TEST(CausalAttention, HeadsReadTheirGroupsKeysAndValues) {
  // Four query heads, two heads of keys and values, hd = 1, one position: y_h is v of the head's
  // group.
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto qkv = torch::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}, type).view({1, 1, 8});
    const auto y = ops::causal_attention(qkv, 4, 2, 1.0).view({4});
    EXPECT_TRUE(torch::allclose(y, torch::tensor({7.0, 7.0, 8.0, 8.0}, type)));
  }
}

TEST(CausalAttention, RotationWorkedByHand) {
  // One head with hd = 4. Row 1 is rotated by the angles 1 and 0.1 (base 100). It reads row 0,
  // which is not rotated, and itself. Its score with itself is q·k of the unrotated q and k. Its
  // score with row 0 is (rotated q)·k.
  const std::vector<double> q = {1, 2, 3, 4}, k = {0.5, -1, 0.25, 0.75};
  const double c0 = std::cos(1.0), s0 = std::sin(1.0), c1 = std::cos(0.1), s1 = std::sin(0.1);
  const std::vector<double> halves = {q[0] * c0 - q[2] * s0, q[1] * c1 - q[3] * s1,
                                      q[2] * c0 + q[0] * s0, q[3] * c1 + q[1] * s1};
  const std::vector<double> adjacent = {q[0] * c0 - q[1] * s0, q[1] * c0 + q[0] * s0,
                                        q[2] * c1 - q[3] * s1, q[3] * c1 + q[2] * s1};
  for (const bool pairs : {false, true}) {
    double far = 0, near = 0;
    for (int i = 0; i < 4; ++i) {
      far += (pairs ? adjacent : halves)[i] * k[i];
      near += q[i] * k[i];
    }
    const double first = std::exp(far) / (std::exp(far) + std::exp(near));
    for (const auto type : {at::kDouble, at::kFloat}) {
      auto qkv = torch::zeros({1, 2, 12}, type);
      for (int i = 0; i < 4; ++i) {
        qkv[0][1][i] = q[i];
        qkv[0][0][4 + i] = qkv[0][1][4 + i] = k[i];
      }
      qkv[0][0][8] = 1.0;  // makes y_1's first element the weight of row 0
      const auto y = ops::causal_attention(qkv, 1, 1, 1.0,
                                           ops::rotation_table(2, 4, 100.0, qkv.options()), pairs);
      EXPECT_NEAR(y[0][1][0].item<double>(), first, 1e-6);
    }
  }
}

TEST(RotationTable, HoldsCosinesThenSines) {
  // hd = 4, base 100: position p rotates the pairs by the angles p and p/10.
  const auto table = ops::rotation_table(4, 4, 100.0, torch::kDouble);
  const std::vector<double> row = {std::cos(3.0), std::cos(0.3), std::sin(3.0), std::sin(0.3)};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(table[3][i].item<double>(), row[i], 1e-12);
  EXPECT_EQ(ops::rotation_table(0, 4, 100.0).sizes(), (at::IntArrayRef{0, 4}));
  EXPECT_TRUE(torch::equal(ops::rotation_table(300, 8, 1e4),
                           ops::rotation_table(300, 8, 1e4, torch::kDouble).to(torch::kFloat)));
  EXPECT_THROW(ops::rotation_table(4, 5, 100.0), Error);
  EXPECT_THROW(ops::rotation_table(4, 4, 0.0), Error);
}

TEST(CausalAttention, GradientsOfTheReference) {
  const Case c{2, 5, 4, 2, 4};
  for (const Pairs pairs : {Pairs::kNone, Pairs::kHalves, Pairs::kAdjacent}) {
    auto report = check_gradients(attention(c, 0.7, pairs), {c.qkv()});
    EXPECT_LT(report.error, 1e-7) << report.where;
    report = check_gradients(attention(c, 0.7, pairs), {c.qkv(), borders(2, 5, 3)});
    EXPECT_LT(report.error, 1e-7) << report.where;
  }
}

TEST(CausalAttention, FastPathOnOddShapes) {
  for (const Case& c : std::vector<Case>{{1, 1, 1, 1, 8},
                                         {2, 7, 4, 2, 8},
                                         {2, 31, 4, 2, 10},
                                         {1, 33, 3, 3, 32},
                                         {2, 64, 2, 1, 64},
                                         {1, 97, 4, 4, 96},
                                         {1, 100, 6, 2, 20},
                                         {3, 130, 4, 2, 32},
                                         {1, 200, 2, 1, 128},
                                         {2, 17, 2, 2, 1},
                                         {1, 70, 5, 1, 6},
                                         {1, 45, 16, 1, 8},
                                         {1, 19, 70, 1, 4}}) {
    const auto qkv = c.qkv(), start = borders(c.batch, c.length, 23);
    for (const Pairs pairs : {Pairs::kNone, Pairs::kHalves, Pairs::kAdjacent}) {
      if (pairs != Pairs::kNone && c.hd % 2) continue;
      SCOPED_TRACE(concat("B=", c.batch, " T=", c.length, " H=", c.heads, " G=", c.kv_heads,
                          " hd=", c.hd, " pairs=", static_cast<int>(pairs)));
      const auto f = attention(c, c.scale(), pairs);
      expect_fast_path("causal_attention", "cpu", f, {qkv});
      expect_fast_path("causal_attention", "cpu", f, {qkv, start});
    }
    expect_fast_path("causal_attention", "cpu", attention(c, -c.scale()), {qkv});
  }
}

TEST(CausalAttention, FastPathOnRandomShapes) {
  for (std::uint64_t trial = 0; trial < 30; ++trial) {
    RandomShape draw(trial);
    const std::int64_t groups = draw.size(1, 4);
    const Case c{draw.size(1, 3), draw.size(1, 150), groups * draw.size(1, 6), groups,
                 2 * draw.size(1, 48)};
    const Pairs pairs = draw.coin() ? Pairs::kHalves : Pairs::kAdjacent;
    SCOPED_TRACE(concat("trial ", trial, ": B=", c.batch, " T=", c.length, " H=", c.heads,
                        " G=", c.kv_heads, " hd=", c.hd));
    const auto f = attention(c, c.scale(), pairs);
    if (draw.coin())
      expect_fast_path("causal_attention", "cpu", f, {c.qkv()});
    else
      expect_fast_path("causal_attention", "cpu", f,
                       {c.qkv(), borders(c.batch, c.length, draw.size(1, 60))});
  }
}

TEST(CausalAttention, ReadsASliceOfAWiderTensor) {
  const Case c{2, 40, 4, 2, 16};
  const TensorFunction sliced = [c](const std::vector<at::Tensor>& in) {
    return attention(c, 0.25, Pairs::kHalves)({in[0].narrow(2, 5, 128)});
  };
  expect_fast_path("causal_attention", "cpu", sliced, {normal({2, 40, 140})});
}

TEST(CausalAttention, LargeScoresDoNotOverflow) {
  auto qkv = normal({1, 80, 3 * 32}) * 40;
  qkv.narrow(2, 64, 32).fill_(1);  // the values
  const auto y = ops::causal_attention(qkv.to(at::kFloat), 2, 2, 1.0);
  EXPECT_LT(relative_error(y, torch::ones_like(y)), 1e-5);
}

TEST(CausalAttention, Repeats) {
  // 16 × 256 = 4096 rows.
  const Case c{16, 256, 4, 2, 16};
  expect_repeats(attention(c, 0.25, Pairs::kHalves), {c.qkv()});
}

TEST(CausalAttention, EmptyIsNormal) {
  for (const auto type : {at::kDouble, at::kFloat})
    for (const auto& [batch, length] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {2, 0}}) {
      const Case c{batch, length, 2, 1, 8};
      const auto results = value_and_gradients(attention(c, 1.0, Pairs::kHalves), {c.qkv()}, type);
      EXPECT_EQ(results[0].sizes(), (at::IntArrayRef{batch, length, 16}));
      EXPECT_EQ(results[1].numel(), 0);
    }
}

TEST(CausalAttention, RefusesWhatDoesNotFit) {
  const auto ok = torch::zeros({1, 4, 6 * 8});
  EXPECT_THROW(ops::causal_attention(ok, 3, 2, 1.0), Error);
  EXPECT_THROW(ops::causal_attention(ok, 0, 0, 1.0), Error);
  EXPECT_THROW(ops::causal_attention(torch::zeros({1, 4, 50}), 2, 2, 1.0), Error);
  const auto with = [&](const at::Tensor& rotation) {
    return ops::causal_attention(ok, 2, 2, 1.0, rotation);
  };
  EXPECT_NO_THROW(with(torch::zeros({4, 8})));
  EXPECT_THROW(with(torch::zeros({3, 8})), Error);
  EXPECT_THROW(with(torch::zeros({4, 6})), Error);
  EXPECT_THROW(with(torch::zeros({4, 8}, at::kDouble)), Error);
  const auto late = torch::tensor({0, 2, 2, 2}, at::kLong).view({1, 4});
  EXPECT_THROW(ops::causal_attention(ok, 2, 2, 1.0, std::nullopt, false, late), Error);
  EXPECT_THROW(ops::causal_attention(ok, 2, 2, 1.0, std::nullopt, false, late - 1), Error);
}

}  // namespace
}  // namespace penstock::causal_attention_test
