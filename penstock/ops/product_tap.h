// The product tap: an observer of the inputs of matrices while a model runs.
// Without one, an operator only reads a thread-local variable. Users of
// the rows are elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace penstock::ops {

struct ExpertProblem;

/// Told of the products of this thread's forward passes while it lives; one at a time on a thread
/// (asserted). Of ops::linear the operands; of ops::expert_ffn, for each expert with tokens, their
/// rows, and what the activation makes of them (before dropout), which is computed once more for
/// it. Products of matrices that stay in files (stored_matrix.h) are not seen.
class ProductTap {
 public:
  /// @param rows    [R, in]
  /// @param weight  the tensor that the operator was given, [out, in] or of all experts
  ///                [E, out, in];  @param matrix  which of these, 0 of one
  using See =
      std::function<void(const at::Tensor& rows, const at::Tensor& weight, std::int64_t matrix)>;

  explicit ProductTap(See see);
  ~ProductTap();
  ProductTap(const ProductTap&) = delete;
  ProductTap& operator=(const ProductTap&) = delete;

 private:
  See see_;
};

/// Operators call it to show their operands to this thread's tap, if there is one.
void show_product(const at::Tensor& rows, const at::Tensor& weight);
void show_products(const ExpertProblem& problem);

}  // namespace penstock::ops
