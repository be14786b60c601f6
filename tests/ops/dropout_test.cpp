// Dropout: the share of elements that stay, what the draws depend on, gradients, and the f32 path
// against the reference.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "tests/ops/fast_path.h"

namespace penstock::dropout_test {
namespace {

using namespace penstock::testing;

TensorFunction dropping(double p, std::int64_t seed) {
  return [=](const std::vector<at::Tensor>& in) { return ops::dropout(in[0], p, seed); };
}

TEST(Dropout, KeepsItsShareScaledAndDiffersByRowColumnAndSeed) {
  const std::int64_t rows = 400, columns = 300;
  for (const double p : {0.1, 0.5, 0.9}) {
    const at::Tensor y = ops::dropout(torch::ones({rows, columns}), p, 42);
    const at::Tensor stays = y.gt(0).to(torch::kDouble);
    EXPECT_NEAR(stays.mean().item<double>(), 1 - p,
                5 * std::sqrt(p * (1 - p) / static_cast<double>(rows * columns)));
    EXPECT_NEAR(y.max().item<double>(), 1 / (1 - p), 1e-6);
    // Rows and columns are independent: each keeps its share, and neighbours agree by chance alone.
    const double spread = std::sqrt(p * (1 - p));
    EXPECT_LT((stays.mean(0) - (1 - p)).abs().max().item<double>(), 6 * spread / std::sqrt(rows));
    EXPECT_LT((stays.mean(1) - (1 - p)).abs().max().item<double>(),
              6 * spread / std::sqrt(columns));
    const at::Tensor c = stays - (1 - p);
    for (const at::Tensor& pairs :
         {c.slice(0, 1) * c.slice(0, 0, rows - 1), c.slice(1, 1) * c.slice(1, 0, columns - 1)})
      EXPECT_NEAR(pairs.mean().item<double>(), 0, 5 * p * (1 - p) / std::sqrt(rows * columns));
    EXPECT_FALSE(torch::equal(y, ops::dropout(torch::ones({rows, columns}), p, 43)));
  }
}

TEST(Dropout, NothingIsDroppedAtZero) {
  const at::Tensor x = torch::randn({5, 7});
  EXPECT_TRUE(torch::equal(ops::dropout(x, 0, 1), x));
}

TEST(Dropout, GradientsOfTheReference) {
  const auto report = check_gradients(dropping(0.3, 9), {normal({4, 10})});
  EXPECT_LT(report.error, 1e-7) << report.where;
}

TEST(Dropout, FastPathDropsTheSameElements) {
  for (const auto& sizes :
       std::vector<std::vector<std::int64_t>>{{1}, {3, 5, 34}, {129, 64}, {70, 513}})
    expect_fast_path("dropout", "cpu", dropping(0.2, 1234567890123), {normal(sizes) + 3}, 1e-6);
}

TEST(Dropout, Repeats) { expect_repeats(dropping(0.4, 5), {normal({4096, 96})}); }

TEST(Dropout, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ops::dropout(torch::zeros({2}), 1.0, 0), Error);
  EXPECT_THROW(ops::dropout(torch::zeros({2}), -0.1, 0), Error);
  EXPECT_THROW(ops::dropout(torch::zeros({2}, at::kLong), 0.5, 0), Error);
}

}  // namespace
}  // namespace penstock::dropout_test
