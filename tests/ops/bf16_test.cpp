// Products in bf16: what is rounded and what is not. Each operator is compared with f64 within
// bounds that follow from its roundings, on each of the processor's units and on the unit's
// emulation, which must agree bit for bit. A comparison with products of the rounded operands would
// show a second rounding.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <bit>
#include <cmath>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/ops/cpu/bf16/pack.h"
#include "penstock/ops/cpu/bf16/rounding.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "tests/ops/allocated_bytes.h"
#include "tests/ops/expert_plan_fixture.h"
#include "tests/ops/fast_path.h"
#include "tests/ops/product_units.h"

namespace penstock::ops::bf16_test {
namespace {

using penstock::testing::kRounding;
using penstock::testing::kTwoRoundings;
using penstock::testing::make_test_plan;
using penstock::testing::normal;
using penstock::testing::relative_error;
using penstock::testing::TensorFunction;
using penstock::testing::TestPlan;
using penstock::testing::value_and_gradients;

/// Runs f with its products in bf16.
TensorFunction in_bf16(const TensorFunction& f) {
  return [f](const std::vector<at::Tensor>& x) {
    const PrecisionScope scope(ProductPrecision::bf16);
    return f(x);
  };
}

at::Tensor wide(const at::Tensor& x) { return x.detach().to(at::kDouble); }
at::Tensor rounded_wide(const at::Tensor& x) {
  return x.detach().to(at::kFloat).to(at::kBFloat16).to(at::kDouble);
}
at::Tensor linear_of(const std::vector<at::Tensor>& x) { return ops::linear(x[0], x[1]); }

/// Expects |found − a·b| ≤ (2u + u² + n·2^-23)·Σ|a||b| for every element: two rounded factors, n
/// sums in f32.
void expect_product(const at::Tensor& found, const at::Tensor& a, const at::Tensor& b) {
  const double n = static_cast<double>(a.size(1));
  const at::Tensor sizes = torch::mm(wide(a).abs(), wide(b).abs());
  const at::Tensor error = (wide(found) - torch::mm(wide(a), wide(b))).abs();
  const double bound = kTwoRoundings + n * std::pow(2.0, -23);
  EXPECT_TRUE((error <= bound * sizes).all().item<bool>()) << (error / sizes).max();
  // The error is larger than that of f32: the operands are rounded.
  if (a.size(1) > 8) {
    EXPECT_GT((error / sizes).max().item<double>(), kRounding / 100);
  }
  // Nothing else is rounded.
  const at::Tensor exact = torch::mm(rounded_wide(a), rounded_wide(b));
  const at::Tensor rest = (wide(found) - exact).abs();
  EXPECT_TRUE((rest <= n * std::pow(2.0, -23) * sizes).all().item<bool>()) << (rest / sizes).max();
}

/// Each test runs on each unit and on its emulation.
class Bf16 : public penstock::testing::WithProductUnit {
 protected:
  void SetUp() override {
    WithProductUnit::SetUp();
    set_threads(2);
    torch::manual_seed(3);
  }
};
INSTANTIATE_TEST_SUITE_P(By, Bf16, penstock::testing::kProductUnits, penstock::testing::unit_name);

TEST(Bf16Rounding, IsToNearestEvenAndKeepsNanAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {1.0f,
                          1.00390625f /* tie, down */,
                          1.01171875f /* tie, up */,
                          1.004f,
                          -inf,
                          inf,
                          std::numeric_limits<float>::max(),
                          0.0f,
                          -0.0f,
                          3.14159274f,
                          std::nanf("1"),
                          -2.71828f,
                          1e-30f,
                          65504.0f,
                          7.0f,
                          -1.00390625f,
                          0.1f};
  x.push_back(std::bit_cast<float>(0x7f800001u));  // a NaN whose upper half equals infinity's
  std::vector<std::uint16_t> out(x.size());
  ops::bf16::round_row(static_cast<std::int64_t>(x.size()), x.data(), out.data());
  const std::vector<std::uint16_t> wanted = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xff80,
                                             0x7f80, 0x7f80, 0x0000, 0x8000, 0x4049};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(out[i], wanted[i]) << i;
  for (const std::size_t i : {std::size_t{10}, x.size() - 1})
    EXPECT_EQ(out[i] & 0x7fc0, 0x7fc0) << i;
  const at::Tensor many = torch::randn({4099}) * torch::randn({4099}).mul(20).exp2();
  EXPECT_TRUE(ops::bf16::rounded(many).equal(many.to(at::kBFloat16)));
}

TEST(Bf16Rounding, OfAnyCountReadsAndWritesThatManyAndNoMore) {
  torch::manual_seed(5);
  const at::Tensor x = torch::randn({2, 200}), wanted = x.to(at::kBFloat16);
  const auto* halves = static_cast<const std::uint16_t*>(wanted.data_ptr());
  const float *first = x.data_ptr<float>(), *second = first + 200;
  for (const std::int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 130}) {
    std::vector<std::uint16_t> out(200, 7);
    ops::bf16::round_row(n, first, out.data());
    for (std::int64_t i = 0; i < 200; ++i)
      ASSERT_EQ(out[static_cast<std::size_t>(i)], i < n ? halves[i] : 7) << n << ", " << i;
    for (const float* other : {second, static_cast<const float*>(nullptr)}) {
      std::vector<ops::bf16::Pair> panels(3 * ops::bf16::kPanel, 7);
      ops::bf16::pack_row_pair(n, first, other, panels.data(), ops::bf16::kPanel);
      for (std::int64_t i = 0; i < std::ssize(panels); ++i) {
        const bool in_panel =
            i < (n + ops::bf16::kPanel - 1) / ops::bf16::kPanel * ops::bf16::kPanel;
        const std::uint32_t high = other ? std::uint32_t{halves[200 + i]} << 16 : 0;
        ASSERT_EQ(panels[static_cast<std::size_t>(i)], i < n      ? halves[i] | high
                                                       : in_panel ? 0
                                                                  : 7)
            << n << ", " << i;
      }
    }
  }
}

TEST(Bf16Scope, HoldsForItsThreadAndForTheBackwardPassAlone) {
  EXPECT_EQ(product_precision(), ProductPrecision::fp32);
  torch::manual_seed(1);
  emulate_bf16(true);
  const at::Tensor x = torch::randn({70, 32}).set_requires_grad(true), w = torch::randn({24, 32});
  at::Tensor y;
  {
    const PrecisionScope scope(ProductPrecision::bf16);
    const PrecisionScope inner(ProductPrecision::fp32);
    EXPECT_TRUE(ops::linear(x, w).equal(ops::linear(x, w)));
    EXPECT_EQ(product_precision(), ProductPrecision::fp32);
  }
  reset_dispatch_counts();
  {
    const PrecisionScope scope(ProductPrecision::bf16);
    y = ops::linear(x, w);
  }
  EXPECT_EQ(product_precision(), ProductPrecision::fp32);
  y.sum().backward();  // outside the scope of the precision
  const auto counts = dispatch_counts();
  EXPECT_EQ(counts.at("linear/bf16"), 1);
  EXPECT_EQ(counts.at("linear.backward/bf16"), 1);
  const at::Tensor before = y.detach();
  EXPECT_FALSE(ops::linear(x, w).equal(before));
  emulate_bf16(false);
}

TEST(Bf16Scope, LeavesF64Alone) {
  torch::manual_seed(2);
  const std::vector<at::Tensor> inputs = {normal({9, 7}), normal({5, 7})};
  const auto plain = value_and_gradients(linear_of, inputs, at::kDouble);
  const auto scoped = value_and_gradients(in_bf16(linear_of), inputs, at::kDouble);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(plain[i].equal(scoped[i])) << i;
}

TEST_P(Bf16, LinearIsWithinItsRoundings) {
  for (const auto& [rows, in, out] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                              {5, 3, 2},
                                                                              {17, 13, 65},
                                                                              {70, 24, 32},
                                                                              {300, 129, 67},
                                                                              {1100, 300, 520},
                                                                              {260, 515, 16}}) {
    SCOPED_TRACE(penstock::concat(rows, " x ", in, " x ", out));
    const at::Tensor x = torch::randn({rows, in}), w = torch::randn({out, in}),
                     b = torch::randn({out});
    const auto leaf = [](const at::Tensor& t) { return t.clone().set_requires_grad(true); };
    const at::Tensor lx = leaf(x), lw = leaf(w), lb = leaf(b), dy = torch::randn({rows, out});
    reset_dispatch_counts();
    {
      const PrecisionScope scope(ProductPrecision::bf16);
      expect_product(ops::linear(lx, lw), x, w.t());
      ops::linear(lx, lw, lb).backward(dy);
    }
    expect_product(lx.grad(), dy, w);
    expect_product(lw.grad(), dy.t(), x);
    EXPECT_LT(relative_error(lb.grad(), wide(dy).sum(0)), 1e-5);  // sums are in f32
    EXPECT_EQ(dispatch_counts(), (std::map<std::string, std::int64_t>{
                                     {"linear/bf16", 2}, {"linear.backward/bf16", 1}}));
  }
}

TEST_P(Bf16, HeadIsWithinItsRoundings) {
  const auto f = [](const std::vector<at::Tensor>& x) {
    return linear_cross_entropy(x[0], x[1], x[2], 4 * 39 * 8);  // chunks of 8 rows
  };
  const std::vector<at::Tensor> inputs = {normal({30, 17}), normal({39, 17}), torch::arange(30)};
  reset_dispatch_counts();
  const auto found = value_and_gradients(in_bf16(f), inputs, at::kFloat);
  EXPECT_EQ(dispatch_counts().at("linear_cross_entropy/bf16"), 1);
  const auto exact = value_and_gradients(f, inputs, at::kDouble);
  // A logit's error is at most 2u·Σ|x||w|. The mean loss's error is at most twice the largest of
  // these.
  const double logit =
      (2 * kRounding + 1e-4) * torch::mm(inputs[0].abs(), inputs[1].abs().t()).max().item<double>();
  EXPECT_LT((wide(found[0]) - exact[0]).abs().item<double>(), 2 * logit);
  for (std::size_t i = 1; i < exact.size(); ++i)
    EXPECT_LT((wide(found[i]) - exact[i]).abs().max().item<double>(),
              (2 * kRounding + 2 * logit) * exact[i].abs().max().item<double>())
        << i;
  const ReferenceOnly only;
  const auto reference = value_and_gradients(in_bf16(f), inputs, at::kFloat);
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_LT(relative_error(found[i], wide(reference[i])), 2e-4) << i;
}

struct ExpertCase {
  std::int64_t tokens, d, f, experts;
  Activation activation;
  bool biases, recompute;
  double dropout;
};

/// The inputs are hidden, weight, w_in and w_out, followed by b_in and b_out in cases with biases.
TensorFunction expert_function(const ExpertCase& c, const TestPlan& plan) {
  return [=](const std::vector<at::Tensor>& x) {
    ExpertOptions options{.activation = c.activation, .recompute = c.recompute};
    options.dropout = c.dropout;
    options.dropout_seed = 11;
    if (c.biases) {
      options.b_in = x[4];
      options.b_out = x[5];
    }
    return expert_ffn(x[0], x[1], plan.token, plan.offsets, plan.by_token, plan.token_offsets, x[2],
                      x[3], options);
  };
}

std::vector<at::Tensor> expert_inputs(const ExpertCase& c, const TestPlan& plan) {
  const std::int64_t m = c.activation == Activation::swiglu ? 2 : 1;
  std::vector<at::Tensor> out = {normal({c.tokens, c.d}), normal({plan.assignments()}).sigmoid(),
                                 normal({c.experts, m * c.f, c.d}) / std::sqrt(c.d),
                                 normal({c.experts, c.d, c.f}) / std::sqrt(c.f)};
  if (c.biases) {
    out.push_back(normal({c.experts, m * c.f}));
    out.push_back(normal({c.experts, c.d}));
  }
  return out;
}

const std::vector<ExpertCase> kExpertCases = {
    {40, 16, 20, 4, Activation::swiglu, false, false, 0},
    {300, 48, 150, 3, Activation::swiglu, true, false, 0},
    {301, 33, 129, 2, Activation::relu, true, true, 0},
    {257, 64, 256, 4, Activation::swiglu, false, true, 0.3},
    {90, 7, 5, 6, Activation::relu, false, false, 0.2},
};

TestPlan plan_of(const ExpertCase& c) {
  // The last expert has no rows, and some tokens have no expert.
  return make_test_plan(c.tokens, c.experts, [&](std::int64_t e, std::int64_t t) {
    return e + 1 < c.experts && (e + t) % 3 != 0 && t % 7 != 5;
  });
}

TEST_P(Bf16, ExpertsAreWithinTheirRoundings) {
  for (const ExpertCase& c : kExpertCases) {
    SCOPED_TRACE(penstock::concat(c.tokens, " tokens, d ", c.d, ", f ", c.f));
    const TestPlan plan = plan_of(c);
    const TensorFunction f = expert_function(c, plan);
    const std::vector<at::Tensor> inputs = expert_inputs(c, plan);
    reset_dispatch_counts();
    const auto found = value_and_gradients(in_bf16(f), inputs, at::kFloat);
    EXPECT_EQ(dispatch_counts(), (std::map<std::string, std::int64_t>{
                                     {"expert_ffn/bf16", 1}, {"expert_ffn.backward/bf16", 1}}));
    // Each result has gone through at most three products with two roundings each. There are two
    // exceptions: ReLU's derivative jumps where a rounding changes a sign, and the gradient of
    // b_out is in f32.
    const auto exact = value_and_gradients(f, inputs, at::kDouble);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = relative_error(found[i], exact[i]);
      if (i == 0 || c.activation == Activation::swiglu) {
        EXPECT_LT(error, 6 * kRounding) << i;
      }
      if (i < 6) {
        EXPECT_GT(error, 1e-5) << i;
      } else {
        EXPECT_LT(error, 1e-5) << i;
      }
    }
    // The reference rounds the same operands. Where sums in another order differ in f32's last bit,
    // a few intermediate values round to the other neighbour.
    const ReferenceOnly only;
    const auto reference = value_and_gradients(in_bf16(f), inputs, at::kFloat);
    for (std::size_t i = 0; i < exact.size(); ++i)
      EXPECT_LT((wide(found[i]) - wide(reference[i])).norm().item<double>(),
                0.1 * kRounding * exact[i].norm().item<double>())
          << i;
  }
}

TEST_P(Bf16, RecomputedInputsGiveTheSameBits) {
  ExpertCase c = kExpertCases[1];
  const TestPlan plan = plan_of(c);
  const auto inputs = expert_inputs(c, plan);
  const auto kept = value_and_gradients(in_bf16(expert_function(c, plan)), inputs, at::kFloat);
  c.recompute = true;
  const auto again = value_and_gradients(in_bf16(expert_function(c, plan)), inputs, at::kFloat);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].equal(again[i])) << i;
}

TEST_P(Bf16, RecomputationPacksTheMatricesThatItReadsAndNoMore) {
  constexpr std::int64_t d = 128, f = 256;
  const ExpertCase c = {16, d, f, 3, Activation::swiglu, false, false, 0};
  const TestPlan plan = plan_of(c);
  const auto peak_of_backward = [&](bool recompute) {
    ExpertCase each = c;
    each.recompute = recompute;
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& x : expert_inputs(each, plan))
      leaves.push_back(x.to(at::kFloat).set_requires_grad(true));
    const at::Tensor y = in_bf16(expert_function(each, plan))(leaves).sum();
    const penstock::testing::AllocatedBytes allocated;
    y.backward();
    return allocated.peak();
  };
  // Recomputation packs both input matrices of each of 3 experts, in two bytes a number.
  EXPECT_EQ(peak_of_backward(true) - peak_of_backward(false), 3 * 2 * d * f * 2);
}

TEST_P(Bf16, RepeatsBitwiseWithAnyNumberOfThreads) {
  penstock::testing::expect_repeats(in_bf16(linear_of), {normal({700, 96}), normal({130, 96})});
  const TestPlan plan = plan_of(kExpertCases[1]);
  penstock::testing::expect_repeats(in_bf16(expert_function(kExpertCases[1], plan)),
                                    expert_inputs(kExpertCases[1], plan));
}

void expect_bits_of_emulation(ProductUnit unit, ProductUnit emulation) {
  if (!available(unit)) GTEST_SKIP() << "this processor has no " << word(unit);
  torch::manual_seed(4);
  const auto both = [=](const TensorFunction& f, const std::vector<at::Tensor>& inputs) {
    choose_product_unit(unit);
    const auto processor = value_and_gradients(in_bf16(f), inputs, at::kFloat);
    choose_product_unit(emulation);
    const auto emulated = value_and_gradients(in_bf16(f), inputs, at::kFloat);
    choose_product_unit(std::nullopt);
    for (std::size_t i = 0; i < processor.size(); ++i)
      EXPECT_TRUE(processor[i].equal(emulated[i])) << i;
  };
  both(linear_of, {normal({333, 77}), normal({91, 77})});
  both([](const auto& x) { return linear_cross_entropy(x[0], x[1], x[2]); },
       {normal({30, 17}), normal({39, 17}), torch::arange(30)});
  for (const ExpertCase& c : kExpertCases) {
    const TestPlan plan = plan_of(c);
    both(expert_function(c, plan), expert_inputs(c, plan));
  }
}
TEST(Bf16Emulation, HasTheBitsOfAvx512) {
  expect_bits_of_emulation(ProductUnit::avx512, ProductUnit::emulated_avx512);
}
TEST(Bf16Emulation, HasTheBitsOfAmx) {
  expect_bits_of_emulation(ProductUnit::amx, ProductUnit::emulated_amx);
}

TEST(Bf16Emulation, NeitherProcessorNorEmulationLeavesTheReference) {
  if (processor_has_bf16()) GTEST_SKIP() << "this processor has bf16 products";
  reset_dispatch_counts();
  value_and_gradients(in_bf16(linear_of), {normal({70, 16}), normal({20, 16})}, at::kFloat);
  EXPECT_EQ(dispatch_counts().at("linear/reference"), 1);
}

}  // namespace
}  // namespace penstock::ops::bf16_test
