// How alike a layer's experts are: representation collapse, measured.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock::analysis {

/// Cosine between the experts' outputs for the same token, mean over tokens.
///   C_ij = 1/T Σ_t ⟨y_it, y_jt⟩ / (‖y_it‖ ‖y_jt‖);  0 where an output is zero
/// @param outputs [E, T, d] f32|f64.  @return [E, E] f64
at::Tensor output_cosines(const at::Tensor& outputs);

/// Linear centred kernel alignment of the experts' outputs, 1 where one is the other rotated,
/// scaled and moved.
///   A_ij = ‖Y_jᵀ Y_i‖²_F / (‖Y_iᵀ Y_i‖_F ‖Y_jᵀ Y_j‖_F),  columns of Y centred over the tokens
/// @param outputs [E, T, d] f32|f64.  @return [E, E] f64. Cost: O(E·T²·d + E²·T²).
/// Source: Kornblith et al., arXiv:1905.00414, Eq. 4 (biased).
at::Tensor linear_cka(const at::Tensor& outputs);

/// Cosine between rows.  @param rows [E, n].  @return [E, E] f64; 0 for a zero row
at::Tensor row_cosines(const at::Tensor& rows);

/// Mean over i ≠ j of a matrix [E, E]; 0 for E = 1.
double off_diagonal_mean(const at::Tensor& matrix);

}  // namespace penstock::analysis
