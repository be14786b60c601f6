// Ranks of matrices, and how the space that several span grows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace penstock::analysis {

/// Relative precision of numbers that were stored as f32; for ranks of what was trained in f32.
inline constexpr double kSinglePrecision = 1.1920928955078125e-07;
inline constexpr double kDoublePrecision = 2.220446049250313e-16;

struct Rank {
  std::int64_t numerical = 0;  ///< singular values above max(m, n)·ε·σ₁
  /// exp(−Σ p_i ln p_i), p_i = σ_i / Σ σ: 1 for one direction, the rank for equally strong ones, 0
  /// for a zero matrix. Source: Roy and Vetterli, EUSIPCO 2007.
  double effective = 0;
};

/// @param matrix [m, n] f32|f64; either may be 0.  @param precision  ε
Rank rank_of(const at::Tensor& matrix, double precision = kDoublePrecision);

/// Ranks of [M₁], [M₁; M₂], [M₁; M₂; M₃], ...: of what the first n together span.
/// @param matrices [m_i, n] each
std::vector<Rank> ranks_of_stacks(const std::vector<at::Tensor>& matrices,
                                  double precision = kSinglePrecision);

}  // namespace penstock::analysis
