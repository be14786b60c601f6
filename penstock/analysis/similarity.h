// The similarity of a layer's experts, a measure of representation collapse.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock::analysis {

/// The mean over tokens of the cosine between two experts' outputs for the same token.
///   C_ij = 1/T Σ_t ⟨y_it, y_jt⟩ / (‖y_it‖ ‖y_jt‖);  a term is 0 if an output is zero
/// @param outputs [E, T, d] f32|f64.  @return [E, E] f64
at::Tensor output_cosines(const at::Tensor& outputs);

/// Linear centred kernel alignment of the experts' outputs. It is 1 if one expert's outputs are the
/// other's after a rotation, a scaling and a translation.
///   A_ij = ‖Y_jᵀ Y_i‖²_F / (‖Y_iᵀ Y_i‖_F ‖Y_jᵀ Y_j‖_F),  columns of Y centred over the tokens
/// @param outputs [E, T, d] f32|f64.  @return [E, E] f64. Cost: O(E·T²·d + E²·T²).
/// Source: Kornblith et al., arXiv:1905.00414, Eq. 4 (biased).
at::Tensor linear_cka(const at::Tensor& outputs);

/// The cosine between rows.  @param rows [E, n].  @return [E, E] f64; 0 for a zero row
at::Tensor row_cosines(const at::Tensor& rows);

/// Mean over i ≠ j of a matrix [E, E]; 0 for E = 1.
double off_diagonal_mean(const at::Tensor& matrix);

}  // namespace penstock::analysis
