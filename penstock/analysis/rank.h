// Ranks of matrices, and of stacks of several matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace penstock::analysis {

/// Relative precision of f32, for ranks of matrices that were trained in f32.
inline constexpr double kSinglePrecision = 1.1920928955078125e-07;
/// Relative precision of f64.
inline constexpr double kDoublePrecision = 2.220446049250313e-16;

struct Rank {
  std::int64_t numerical = 0;  ///< singular values above max(m, n)·ε·σ₁
  /// exp(−Σ p_i ln p_i), p_i = σ_i / Σ σ. It is 1 for one singular value above 0, the rank if all
  /// singular values above 0 are equal, and 0 for a zero matrix. Source: Roy and Vetterli, EUSIPCO
  /// 2007.
  double effective = 0;
};

/// @param matrix [m, n] f32|f64; m and n may be 0.  @param precision  ε
Rank rank_of(const at::Tensor& matrix, double precision = kDoublePrecision);

/// Ranks of the stacked matrices [M₁], [M₁; M₂], [M₁; M₂; M₃], ...
/// @param matrices [m_i, n] each
std::vector<Rank> ranks_of_stacks(const std::vector<at::Tensor>& matrices,
                                  double precision = kSinglePrecision);

}  // namespace penstock::analysis
