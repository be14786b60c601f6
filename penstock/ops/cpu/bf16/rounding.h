// Rounding of f32 to bf16, and the sizes of packed operands.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <cstdint>

#include "penstock/ops/cpu/bf16/product.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::bf16 {

/// x rounded to bf16, to nearest with ties to even; a NaN becomes a quiet NaN. The upper half of a
/// lane is the bf16; the lower half is 0.
PENSTOCK_INLINE cpu::UInt16 round_lanes(const cpu::Vec16& x) {
  const auto bits = std::bit_cast<cpu::UInt16>(x);
  const cpu::UInt16 nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
  const auto nan = std::bit_cast<cpu::UInt16>(x != x);
  return ((nearest & ~nan) | ((bits | 0x400000u) & nan)) & 0xffff0000u;
}

/// The pairs of a depth, rounded up to a multiple of sixteen values. So an operand that is padded
/// to such a multiple has the same layout.
inline std::int64_t pairs_of(std::int64_t depth) { return (depth + 15) / 16 * 8; }
/// The pairs in all panels of a matrix with `columns` columns, `pairs` pairs deep.
inline std::int64_t panel_pairs(std::int64_t columns, std::int64_t pairs) {
  return (columns + kPanel - 1) / kPanel * kPanel * pairs;
}

/// Rounds n floats to bf16. A denormal number may become 0; products treat it as 0.
void round_row(std::int64_t n, const float* from, std::uint16_t* to);

/// x in bf16.  REQUIRES: contiguous f32 on the CPU.  Cost: one sweep, on all threads.
at::Tensor rounded(const at::Tensor& x);

}  // namespace penstock::ops::bf16
