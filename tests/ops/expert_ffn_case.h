// Test cases of expert_ffn, and the comparison of two ways to compute a case.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "penstock/base/random.h"
#include "penstock/ops/ops.h"
#include "tests/ops/expert_plan_fixture.h"
#include "tests/ops/finite_difference.h"

namespace penstock::ops::expert_ffn_test {

using testing::make_test_plan;
using testing::TestPlan;

struct Case {
  TestPlan plan;
  at::Tensor hidden, weight, w_in, w_out;  // f64
  at::Tensor b_in, b_out;                  // f64, or undefined
  Activation activation = Activation::swiglu;
  bool recompute = false;
  double dropout = 0;
  at::Tensor keys = {};  // i64, or undefined
};

struct Results {
  at::Tensor y, hidden, weight, w_in, w_out, b_in, b_out;
};

inline Case make_case(const TestPlan& plan, std::int64_t tokens, std::int64_t experts,
                      std::int64_t d, std::int64_t f) {
  const auto f64 = torch::kDouble;
  torch::manual_seed(tokens * 7 + d);
  // The values lie on a grid. Sums before max(0, x) are then exact in f32, so no sign depends on
  // rounding.
  const auto grid = [](const at::Tensor& x, double steps) { return (x * steps).round() / steps; };
  return {plan, grid(torch::randn({tokens, d}, f64), 8),
          torch::rand({plan.assignments()}, f64) + 0.1,
          grid(torch::randn({experts, 2 * f, d}, f64) / std::sqrt(double(d)), 64),
          torch::randn({experts, d, f}, f64) / std::sqrt(double(f))};
}

/// The same case with biases and max(0, x) between the products.
inline Case with_relu(Case c) {
  const std::int64_t experts = c.w_out.size(0), d = c.w_out.size(1), f = c.w_out.size(2);
  c.w_in = c.w_in.narrow(1, 0, f).contiguous();
  c.b_in = (torch::randn({experts, f}, c.w_in.options()) * 8).round() / 8;
  c.b_out = torch::randn({experts, d}, c.w_in.options());
  c.activation = Activation::relu;
  return c;
}

inline Case with_dropout(Case c) {
  c.dropout = 0.3;
  return c;
}

inline at::Tensor call(const Case& c) {
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return expert_ffn(c.hidden, c.weight, c.plan.token, c.plan.offsets, c.plan.by_token,
                    c.plan.token_offsets, c.w_in, c.w_out,
                    {.b_in = optional(c.b_in),
                     .b_out = optional(c.b_out),
                     .activation = c.activation,
                     .recompute = c.recompute,
                     .dropout = c.dropout,
                     .dropout_seed = 77,
                     .dropout_keys = optional(c.keys)});
}

/// Output and gradients. The f32 run computes from the same values, which f32 represents exactly.
inline Results run(const Case& c, at::ScalarType type) {
  Case leaves = c;
  for (at::Tensor* x :
       {&leaves.hidden, &leaves.weight, &leaves.w_in, &leaves.w_out, &leaves.b_in, &leaves.b_out})
    if (x->defined()) *x = x->to(torch::kFloat).to(type).set_requires_grad(true);
  const at::Tensor y = call(leaves);
  const at::Tensor probe = torch::linspace(-1, 1, y.numel()).cos().to(type).view(y.sizes());
  (y * probe).sum().backward();
  return {y.detach(),
          leaves.hidden.grad(),
          leaves.weight.grad(),
          leaves.w_in.grad(),
          leaves.w_out.grad(),
          c.b_in.defined() ? leaves.b_in.grad() : at::Tensor(),
          c.b_out.defined() ? leaves.b_out.grad() : at::Tensor()};
}

inline std::map<std::string, double> errors(const Results& fast, const Results& exact) {
  std::map<std::string, double> out{{"y", testing::relative_error(fast.y, exact.y)},
                                    {"hidden", testing::relative_error(fast.hidden, exact.hidden)},
                                    {"weight", testing::relative_error(fast.weight, exact.weight)},
                                    {"w_in", testing::relative_error(fast.w_in, exact.w_in)},
                                    {"w_out", testing::relative_error(fast.w_out, exact.w_out)}};
  if (exact.b_in.defined()) out["b_in"] = testing::relative_error(fast.b_in, exact.b_in);
  if (exact.b_out.defined()) out["b_out"] = testing::relative_error(fast.b_out, exact.b_out);
  return out;
}

inline void expect_same_bits(const Results& a, const Results& b) {
  EXPECT_TRUE(a.y.equal(b.y));
  EXPECT_TRUE(a.hidden.equal(b.hidden));
  EXPECT_TRUE(a.weight.equal(b.weight));
  EXPECT_TRUE(a.w_in.equal(b.w_in));
  EXPECT_TRUE(a.w_out.equal(b.w_out));
  EXPECT_TRUE(!a.b_in.defined() || a.b_in.equal(b.b_in));
  EXPECT_TRUE(!a.b_out.defined() || a.b_out.equal(b.b_out));
}

/// Draws each (expert, token) pair with the given probability.
inline TestPlan random_plan(std::int64_t tokens, std::int64_t experts, double chance) {
  return make_test_plan(tokens, experts, [&](std::int64_t e, std::int64_t t) {
    return static_cast<double>(random_bits(5, e, t) >> 11) * 0x1p-53 < chance;
  });
}

}  // namespace penstock::ops::expert_ffn_test
