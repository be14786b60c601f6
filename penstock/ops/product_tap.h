// The product tap: an observer of the rows that a running model multiplies with its matrices.
// Without a tap, an operator only reads a thread-local variable. The observer, not this file, uses
// the rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace penstock::ops {

struct ExpertProblem;

/// Sees the products of this thread's forward passes while it lives. A thread has at most one tap
/// at a time (asserted). From ops::linear it sees the operands. From ops::expert_ffn it sees, for
/// each expert with tokens, the tokens' rows with w_in, and the activation's output (before
/// dropout) with w_out. The tap computes the activation's output a second time. It does not see
/// products of matrices that stay in files (stored_matrix.h).
class ProductTap {
 public:
  /// @param rows    [R, in]
  /// @param weight  the tensor that the operator was given: [out, in], or all experts' [E, out, in]
  /// @param matrix  the index of the matrix in [E, out, in]; 0 for [out, in]
  using Observer =
      std::function<void(const at::Tensor& rows, const at::Tensor& weight, std::int64_t matrix)>;

  explicit ProductTap(Observer observer);
  ~ProductTap();
  ProductTap(const ProductTap&) = delete;
  ProductTap& operator=(const ProductTap&) = delete;

 private:
  Observer observer_;
};

/// Operators call these functions to show their operands to this thread's tap, if there is one.
void show_product(const at::Tensor& rows, const at::Tensor& weight);
void show_products(const ExpertProblem& problem);

}  // namespace penstock::ops
