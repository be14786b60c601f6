// linear: gradients in f64 by finite differences; the fast f32 path, forward and every gradient,
// against the f64 reference, on shapes with odd and empty sizes.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/ops.h"
#include "tests/ops/finite_difference.h"
#include "tests/ops/random_shape.h"

namespace penstock::ops::linear_test {
namespace {

struct Results {
  at::Tensor y, dx, dw, db;
};

Results run(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b,
            at::ScalarType type) {
  const auto leaf = [&](const at::Tensor& tensor) {
    return tensor.detach().to(type).clone().set_requires_grad(true);
  };
  const at::Tensor lx = leaf(x), lw = leaf(w);
  std::optional<at::Tensor> lb;
  if (b) lb = leaf(*b);
  const at::Tensor y = ops::linear(lx, lw, lb);
  const at::Tensor probe = torch::linspace(0.5, 1.5, y.numel()).to(type).view(y.sizes());
  (y * probe).sum().backward();
  return {y.detach(), lx.grad(), lw.grad(), lb ? lb->grad() : at::Tensor()};
}

TEST(Linear, HandWorked) {
  const auto x = torch::tensor({{1.0, 2.0}, {3.0, -1.0}}, torch::kDouble);
  const auto w = torch::tensor({{0.5, 1.0}, {2.0, 0.0}, {-1.0, 1.0}}, torch::kDouble);
  const auto b = torch::tensor({0.0, 10.0, 1.0}, torch::kDouble);
  const auto expected = torch::tensor({{2.5, 12.0, 2.0}, {0.5, 16.0, -3.0}}, torch::kDouble);
  EXPECT_TRUE(ops::linear(x, w, b).equal(expected));
  EXPECT_TRUE(ops::linear(x.to(torch::kFloat), w.to(torch::kFloat), b.to(torch::kFloat))
                  .equal(expected.to(torch::kFloat)));
}

TEST(Linear, GradientsMatchFiniteDifferences) {
  torch::manual_seed(1);
  const auto f64 = torch::kDouble;
  const std::vector<at::Tensor> inputs{torch::randn({2, 3, 5}, f64), torch::randn({4, 5}, f64),
                                       torch::randn({4}, f64)};
  const auto report = testing::check_gradients(
      [](const std::vector<at::Tensor>& in) { return ops::linear(in[0], in[1], in[2]).tanh(); },
      inputs);
  EXPECT_LT(report.error, 1e-8) << report.where;
}

class LinearShapes : public ::testing::TestWithParam<std::array<int, 4>> {};

void expect_fast_path_as_in_f64(std::array<int, 4> shape, double tolerance) {
  const auto [rows, in, out, bias] = shape;
  // libxsmm computes products with many rows, and oneDNN the others. Forward products with few rows
  // have their own path.
  const bool many = built_with("xsmm") && rows >= 64 && in >= 16 && out >= 16;
  const std::string name = many ? "xsmm" : "onednn";
  const std::string forward = rows > 0 && rows <= 16 ? "rows" : name;
  torch::manual_seed(rows * 31 + in);
  const auto x = torch::randn({rows, in}), w = torch::randn({out, in});
  const std::optional<at::Tensor> b = bias ? std::optional(torch::randn({out})) : std::nullopt;
  reset_dispatch_counts();
  const Results fast = run(x, w, b, torch::kFloat);
  const auto counts = dispatch_counts();
  ASSERT_EQ(counts.count("linear/" + forward), 1u);
  ASSERT_EQ(counts.count("linear.backward/" + name), 1u);
  ASSERT_EQ(counts.count("linear/reference"), 0u);
  const Results exact = run(x, w, b, torch::kDouble);
  EXPECT_EQ(dispatch_counts().at("linear.backward/reference"), 1);
  EXPECT_LT(testing::relative_error(fast.y, exact.y), tolerance);
  EXPECT_LT(testing::relative_error(fast.dx, exact.dx), tolerance);
  EXPECT_LT(testing::relative_error(fast.dw, exact.dw), tolerance);
  if (b) {
    EXPECT_LT(testing::relative_error(fast.db, exact.db), tolerance);
  }
}

TEST_P(LinearShapes, FastPathMatchesReferenceInF64) {
  if (!built_with("onednn")) GTEST_SKIP() << "built without oneDNN";
  // The gradient of w is a sum over the rows in f32.
  expect_fast_path_as_in_f64(GetParam(), GetParam()[0] > 1000 ? 5e-6 : 2e-6);
}

TEST(Linear, RandomShapes) {
  if (!built_with("onednn")) GTEST_SKIP() << "built without oneDNN";
  for (std::uint64_t trial = 0; trial < 30; ++trial) {
    testing::RandomShape draw(trial);
    const std::array shape{static_cast<int>(draw.size(1, 900)), static_cast<int>(draw.size(1, 600)),
                           static_cast<int>(draw.size(1, 600)), draw.coin() ? 1 : 0};
    SCOPED_TRACE(concat("trial ", trial, ": rows=", shape[0], " in=", shape[1], " out=", shape[2]));
    // Errors are relative to the largest result. With few results, all may be sums that nearly
    // cancel.
    const double longest = std::max({shape[0], shape[1], shape[2]});
    expect_fast_path_as_in_f64(shape, 2e-6 + 1e-6 * std::sqrt(longest));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Odd, LinearShapes,
    ::testing::Values(std::array{1, 1, 1, 1}, std::array{7, 13, 5, 0}, std::array{33, 64, 17, 1},
                      std::array{0, 8, 4, 1}, std::array{5, 0, 3, 1}, std::array{200, 129, 65, 1},
                      std::array{512, 256, 8, 0},
                      // Several panels, depths and blocks of rows, none of them full.
                      std::array{1100, 300, 520, 1}, std::array{2100, 512, 512, 0},
                      // Gradients of wide and of tall weights.
                      std::array{700, 1100, 40, 0}, std::array{300, 90, 1300, 1}));

TEST(Linear, ComparisonSeesOneWrongElement) {
  torch::manual_seed(2);
  const auto x = torch::randn({64, 48}), w = torch::randn({32, 48});
  const Results exact = run(x, w, std::nullopt, torch::kDouble);
  auto wrong = w.clone();
  wrong[3][5] += 1e-3;
  EXPECT_GT(testing::relative_error(run(x, wrong, std::nullopt, torch::kFloat).y, exact.y), 2e-5);
}

TEST(Linear, TakesStridedInputsAndPartialGradients) {
  torch::manual_seed(3);
  const auto x = torch::randn({12, 9}).t(), w = torch::randn({12, 7}).t();
  auto leaf = w.detach().set_requires_grad(true);
  const auto y = ops::linear(x, leaf);
  EXPECT_LT(testing::relative_error(y, torch::mm(x, w.t())), 1e-6);
  y.sum().backward();
  const auto expected = x.sum(0).expand({7, 12});
  EXPECT_LT(testing::relative_error(leaf.grad(), expected), 1e-6);
}

TEST(Linear, FewRowsAreSummedAlikeWhateverTheirNumberAndTheThreads) {
  torch::manual_seed(5);
  for (const std::int64_t in : {7, 48, 517}) {
    set_threads(2);
    const auto x = torch::randn({16, in}), w = torch::randn({203, in}), b = torch::randn({203});
    reset_dispatch_counts();
    const at::Tensor y = ops::linear(x, w, b);
    for (std::int64_t rows = 1; rows < 16; ++rows)
      EXPECT_TRUE(
          ops::linear(x.narrow(0, 16 - rows, rows), w, b).equal(y.narrow(0, 16 - rows, rows)))
          << rows;
    set_threads(1);
    EXPECT_TRUE(ops::linear(x, w, b).equal(y));
    EXPECT_EQ(dispatch_counts().at("linear/rows"), 17);
    set_threads(0);
  }
}

TEST(Linear, RepeatsBitwiseWithTwoThreads) {
  torch::manual_seed(4);
  set_threads(2);
  const auto x = torch::randn({4096, 64}), w = torch::randn({96, 64}), b = torch::randn({96});
  const Results first = run(x, w, b, torch::kFloat);
  for (int i = 0; i < 5; ++i) {
    const Results again = run(x, w, b, torch::kFloat);
    EXPECT_TRUE(again.y.equal(first.y) && again.dx.equal(first.dx) && again.dw.equal(first.dw) &&
                again.db.equal(first.db));
  }
  set_threads(0);
}

TEST(Linear, ReferenceOnlyHolds) {
  const ReferenceOnly only;
  reset_dispatch_counts();
  ops::linear(torch::randn({2, 3}), torch::randn({4, 3}));
  EXPECT_EQ(dispatch_counts(), (std::map<std::string, std::int64_t>{{"linear/reference", 1}}));
}

TEST(Linear, WrongShapesAreErrors) {
  EXPECT_THROW(ops::linear(torch::randn({2, 3}), torch::randn({4, 5})), Error);
  EXPECT_THROW(ops::linear(torch::randn({2, 3}), torch::randn({4, 3}), torch::randn({3})), Error);
  EXPECT_THROW(ops::linear(torch::randn({2, 3}), torch::randn({4, 3}, torch::kDouble)), Error);
}

}  // namespace
}  // namespace penstock::ops::linear_test
