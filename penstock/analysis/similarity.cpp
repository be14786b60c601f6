#include "penstock/analysis/similarity.h"

#include <torch/types.h>

#include <vector>

namespace penstock::analysis {
namespace {

/// Scales each row to length 1. Zero rows stay zero.
at::Tensor of_unit_length(const at::Tensor& rows) {
  const at::Tensor norm = rows.norm(2, -1, true);
  return rows / norm.masked_fill(norm == 0, 1);
}

}  // namespace

at::Tensor row_cosines(const at::Tensor& rows) {
  const at::Tensor unit = of_unit_length(rows.detach().to(at::kCPU, at::kDouble));
  return unit.matmul(unit.t());
}

at::Tensor output_cosines(const at::Tensor& outputs) {
  const at::Tensor unit =
      of_unit_length(outputs.detach().to(at::kCPU, at::kDouble)).flatten(1);  // [E, T·d]
  return unit.matmul(unit.t()) / outputs.size(1);
}

at::Tensor linear_cka(const at::Tensor& outputs) {
  // ‖Y_jᵀ Y_i‖² = ⟨Y_i Y_iᵀ, Y_j Y_jᵀ⟩: a cosine between the [T, T] matrices of inner products.
  std::vector<at::Tensor> products;
  for (const at::Tensor& expert : outputs.detach().unbind(0)) {
    const at::Tensor y = expert.to(at::kCPU, at::kDouble);
    const at::Tensor centred = y - y.mean(0, true);  // [T, d]
    products.push_back(centred.matmul(centred.t()).flatten());
  }
  return row_cosines(at::stack(products));
}

double off_diagonal_mean(const at::Tensor& matrix) {
  const std::int64_t experts = matrix.size(0);
  if (experts < 2) return 0;
  return (matrix.sum() - matrix.diagonal().sum()).item<double>() /
         static_cast<double>(experts * (experts - 1));
}

}  // namespace penstock::analysis
