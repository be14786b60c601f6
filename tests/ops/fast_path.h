// Compares a fast f32 path with the f64 reference, for the value and every gradient, and checks
// that the fast path ran.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

#include "penstock/ops/dispatch.h"
#include "tests/ops/finite_difference.h"

namespace penstock::testing {

/// Value and gradients of Σ f(inputs) ⊙ probe, with the inputs in `dtype` (indices keep their
/// type).
inline std::vector<at::Tensor> value_and_gradients(const TensorFunction& f,
                                                   const std::vector<at::Tensor>& inputs,
                                                   at::ScalarType dtype) {
  std::vector<at::Tensor> leaves;
  for (const auto& input : inputs)
    leaves.push_back(input.is_floating_point()
                         ? input.detach().to(dtype).clone().set_requires_grad(true)
                         : input);
  const auto y = f(leaves);
  torch::manual_seed(77);
  const auto probe = torch::randn(y.sizes(), at::kDouble).to(y.options().requires_grad(false));
  (y * probe).sum().backward();
  std::vector<at::Tensor> out = {y.detach()};
  for (const auto& leaf : leaves)
    if (leaf.is_floating_point())
      out.push_back(leaf.grad().defined() ? leaf.grad().clone() : torch::zeros_like(leaf));
  return out;
}

/// Expects f in f32 on the fast path `name` ("cpu") of operator `op` to agree with the f64
/// reference to `tolerance`, relative to the largest element of each result.
inline void expect_fast_path(const std::string& op, const std::string& name,
                             const TensorFunction& f, const std::vector<at::Tensor>& inputs,
                             double tolerance = 2e-5) {
  ops::reset_dispatch_counts();
  const auto fast = value_and_gradients(f, inputs, at::kFloat);
  auto counts = ops::dispatch_counts();
  EXPECT_EQ((counts[op + "/" + name]), 1) << op;
  EXPECT_EQ((counts[op + ".backward/" + name]), 1) << op;
  const auto exact = value_and_gradients(f, inputs, at::kDouble);
  counts = ops::dispatch_counts();
  EXPECT_EQ((counts[op + "/reference"]), 1) << op;
  EXPECT_EQ((counts[op + ".backward/reference"]), 1) << op;
  ASSERT_EQ(fast.size(), exact.size());
  for (std::size_t i = 0; i < fast.size(); ++i)
    EXPECT_LT(relative_error(fast[i], exact[i]), tolerance)
        << op << (i ? " gradient " + std::to_string(i - 1) : " value");
}

/// Expects two runs, with 2 threads, to agree bitwise in value and gradients.
inline void expect_same_in_every_run(const TensorFunction& f,
                                     const std::vector<at::Tensor>& inputs) {
  ops::set_threads(2);
  const auto once = value_and_gradients(f, inputs, at::kFloat);
  const auto twice = value_and_gradients(f, inputs, at::kFloat);
  for (std::size_t i = 0; i < once.size(); ++i)
    EXPECT_TRUE(once[i].equal(twice[i])) << "result " << i << " differs between runs";
}

/// Expects two runs with 2 threads, and one with 1 thread, to agree bitwise in value and gradients.
/// Penstock's own kernels do. A BLAS may divide its products by the number of threads.
inline void expect_repeats(const TensorFunction& f, const std::vector<at::Tensor>& inputs) {
  expect_same_in_every_run(f, inputs);
  const auto two = value_and_gradients(f, inputs, at::kFloat);
  ops::set_threads(1);
  const auto one = value_and_gradients(f, inputs, at::kFloat);
  ops::set_threads(2);
  for (std::size_t i = 0; i < two.size(); ++i)
    EXPECT_TRUE(two[i].equal(one[i])) << "result " << i << " differs between thread counts";
}

inline at::Tensor normal(std::vector<std::int64_t> sizes) {
  return torch::randn(sizes, at::kDouble);
}

}  // namespace penstock::testing
