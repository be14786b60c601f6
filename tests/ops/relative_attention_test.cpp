// Attention with relative positions: against a loop over pairs of positions, numbers worked by
// hand, and gradients in f64.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock::relative_attention_test {
namespace {

using namespace penstock::testing;

TensorFunction attending(double scale) {
  return [=](const std::vector<at::Tensor>& in) {
    return ops::relative_attention(in[0], in[1], in[2], in[3], in[4], scale);
  };
}

std::vector<at::Tensor> operands(std::int64_t batch, std::int64_t memory, std::int64_t length,
                                 std::int64_t heads, std::int64_t hd, double size = 1) {
  torch::manual_seed(batch + 10 * memory + 100 * length + hd);
  const std::int64_t width = heads * hd, keys = memory + length;
  return {normal({batch, length, width}) * size, normal({batch, keys, 2 * width}) * size,
          normal({keys, width}) * size, normal({heads, hd}) * size, normal({heads, hd}) * size};
}

TEST(RelativeAttention, WorkedByHand) {
  // One head of width 1, scale 1, one remembered position. The only row is at position 1. Its score
  // with key 0 (distance 1) is (2+1)·0 + (2−1)·ln 3. Its score with key 1 (distance 0) is (2+1)·0 +
  // (2−1)·0. The weights of the values 8 and 4 are 3/4 and 1/4, so the result is 7.
  const auto tensor = [](std::vector<double> values, at::IntArrayRef sizes) {
    return torch::tensor(values, torch::kDouble).view(sizes);
  };
  const at::Tensor y = ops::relative_attention(
      tensor({2}, {1, 1, 1}), tensor({0, 8, 0, 4}, {1, 2, 2}), tensor({0, std::log(3.0)}, {2, 1}),
      tensor({1}, {1, 1}), tensor({-1}, {1, 1}), 1);
  EXPECT_NEAR(y.item<double>(), 7, 1e-12);
}

TEST(RelativeAttention, AgreesWithALoopOverPairs) {
  const std::int64_t memory = 3, length = 4, heads = 2, hd = 5, width = heads * hd;
  const auto in = operands(2, memory, length, heads, hd);
  const at::Tensor y = attending(0.7)(in);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < length; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto head = [&](const at::Tensor& row, std::int64_t first) {
          return row.narrow(0, first + h * hd, hd);
        };
        const at::Tensor q = head(in[0][b][t], 0);
        std::vector<double> scores;
        double total = 0;
        at::Tensor sum = torch::zeros({hd}, torch::kDouble);
        for (std::int64_t j = 0; j <= memory + t; ++j) {
          const at::Tensor key = head(in[1][b][j], 0), value = head(in[1][b][j], width);
          const at::Tensor r = head(in[2][memory + t - j], 0);
          const double weight =
              std::exp(0.7 * ((q + in[3][h]).dot(key) + (q + in[4][h]).dot(r)).item<double>());
          total += weight;
          sum = sum + weight * value;
        }
        EXPECT_LT((head(y[b][t], 0) - sum / total).abs().max().item<double>(), 1e-12);
      }
}

TEST(RelativeAttention, GradientsOfTheReference) {
  for (const std::int64_t memory : {0, 2}) {
    const auto report = check_gradients(attending(0.6), operands(2, memory, 3, 2, 2));
    EXPECT_LT(report.error, 1e-6) << report.where;
  }
}

TEST(RelativeAttention, FastPathOnOddShapes) {
  struct Sizes {
    std::int64_t batch, memory, length, heads, hd;
  };
  // Fewer and more rows than a block of 64, no memory and memories up to longer than the sequence,
  // and numbers of keys that are no multiple of 16.
  for (const Sizes& s :
       {Sizes{1, 0, 1, 1, 1}, Sizes{2, 3, 5, 2, 8}, Sizes{1, 0, 64, 2, 16}, Sizes{6, 64, 64, 2, 16},
        Sizes{2, 37, 131, 3, 24}, Sizes{1, 300, 70, 1, 64}, Sizes{5, 16, 200, 2, 20},
        Sizes{1, 128, 1, 4, 32}})
    expect_fast_path("relative_attention", "cpu", attending(1 / std::sqrt(double(s.hd))),
                     operands(s.batch, s.memory, s.length, s.heads, s.hd));
}

TEST(RelativeAttention, FastPathWithLargeScores) {
  expect_fast_path("relative_attention", "cpu", attending(1.0), operands(1, 20, 90, 2, 16, 3),
                   2e-4);
}

TEST(RelativeAttention, Repeats) { expect_repeats(attending(0.3), operands(5, 100, 120, 3, 16)); }

TEST(RelativeAttention, NotANumberStaysOneInItsRow) {
  auto in = operands(1, 0, 70, 1, 16);
  for (auto& x : in) x = x.to(at::kFloat);
  in[0][0][66][3] = NAN;
  const at::Tensor y = attending(0.25)(in);
  EXPECT_TRUE(y[0][66].isnan().all().item<bool>());
  EXPECT_TRUE(y[0].narrow(0, 0, 66).isfinite().all().item<bool>());
}

TEST(RelativeAttention, RefusesWhatDoesNotFit) {
  const auto with = [](std::size_t i, std::vector<std::int64_t> sizes) {
    auto in = operands(1, 2, 3, 2, 4);
    in[i] = normal(sizes);
    return in;
  };
  EXPECT_NO_THROW(attending(1)(operands(1, 2, 3, 2, 4)));
  EXPECT_THROW(attending(1)(with(0, {1, 3, 6})), Error);
  EXPECT_THROW(attending(1)(with(0, {1, 6, 8})), Error);  // more rows than keys
  EXPECT_THROW(attending(1)(with(1, {1, 5, 8})), Error);
  EXPECT_THROW(attending(1)(with(2, {3, 8})), Error);
  EXPECT_THROW(attending(1)(with(4, {4, 2})), Error);
}

}  // namespace
}  // namespace penstock::relative_attention_test
