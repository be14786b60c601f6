// Rounding of f32 to bf16, and the places where the bf16 products want it.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <cstdint>

#include "penstock/ops/cpu/bf16/product.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::bf16 {

/// The upper halves are x in bf16, to nearest with ties to even, a NaN a quiet one; the lower are
/// 0.
PENSTOCK_INLINE cpu::UInt16 round_lanes(const cpu::Vec16& x) {
  const auto bits = std::bit_cast<cpu::UInt16>(x);
  const cpu::UInt16 nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
  const auto nan = std::bit_cast<cpu::UInt16>(x != x);
  return ((nearest & ~nan) | ((bits | 0x400000u) & nan)) & 0xffff0000u;
}

/// Pairs of a depth: even, so many that sixteen values more or less do not change the layout.
inline std::int64_t pairs_of(std::int64_t depth) { return (depth + 15) / 16 * 8; }
/// Pairs in the panels of a matrix of so many columns.
inline std::int64_t panel_pairs(std::int64_t columns, std::int64_t pairs) {
  return (columns + kPanel - 1) / kPanel * kPanel * pairs;
}

/// The bf16 of n floats; of a denormal number perhaps 0, which products take it for.
void round_row(std::int64_t n, const float* from, std::uint16_t* to);

/// x in bf16.  REQUIRES: contiguous f32 on the CPU.  Cost: one sweep, on all threads.
at::Tensor rounded(const at::Tensor& x);

}  // namespace penstock::ops::bf16
