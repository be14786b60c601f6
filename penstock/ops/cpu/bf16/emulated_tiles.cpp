// Tiles of bf16 products by f32 instructions. The processor's instruction rounds once, when it adds
// a product. The product of two bf16 has 16 bits, but it may lie beyond f32's range where the sum
// does not. So each is a fused multiply-add, which the C library computes where the processor has
// none.
#include <algorithm>
#include <bit>
#include <cstring>

#include "penstock/ops/cpu/bf16/tiles.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::bf16 {
namespace {

using cpu::Int16;
using cpu::UInt16;
using cpu::Vec16;

struct Halves {
  Vec16 first, second;
};
PENSTOCK_INLINE Halves halves(const UInt16& pairs) {
  return {std::bit_cast<Vec16>(pairs << 16), std::bit_cast<Vec16>(pairs & 0xffff0000u)};
}

/// sum + a·b, rounded once.
PENSTOCK_INLINE Vec16 fused(const Vec16& a, const Vec16& b, const Vec16& sum) {
  Vec16 out;
  for (std::int64_t i = 0; i < cpu::kLanes; ++i) out[i] = __builtin_fmaf(a[i], b[i], sum[i]);
  return out;
}

/// Columns [0, 16) of one row.
PENSTOCK_INLINE Vec16 row_sum(const PanelProduct& p, const Pair* a, const Pair* b,
                              const Vec16& start) {
  Vec16 sum = start;
  for (std::int64_t k = 0; k < p.pairs; ++k, b += kPanel) {
    UInt16 columns;
    std::memcpy(&columns, b, sizeof(columns));
    const auto [b_first, b_second] = halves(columns);
    const auto [a_first, a_second] = halves(UInt16{} + a[k * p.a_pair]);
    sum = fused(a_second, b_second, sum);
    sum = fused(a_first, b_first, sum);
  }
  return sum;
}

}  // namespace

PENSTOCK_PER_CPU void emulated_tiles(const PanelProduct& p, const Pair* a, const Pair* b,
                                     float* c) {
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = 0; j < p.columns; j += 16) {
      float* to = c + i * p.c_row + j;
      const std::size_t bytes = sizeof(float) * std::min<std::int64_t>(16, p.columns - j);
      Vec16 sum{};
      if (p.accumulate) std::memcpy(&sum, to, bytes);
      sum = row_sum(p, a + i * p.a_row, b + j, sum);
      std::memcpy(to, &sum, bytes);
    }
}

}  // namespace penstock::ops::bf16
