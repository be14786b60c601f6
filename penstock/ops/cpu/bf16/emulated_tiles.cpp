// Tiles of bf16 products by f32 instructions. The processors' instructions round once, when they
// add a product. The product of two bf16 has 16 bits, but it may lie beyond f32's range where the
// sum does not. So each product is a fused multiply-add. The C library computes it where the
// processor has no such instruction. Denormal numbers count as zero, because the processors'
// instructions treat them as zero in any mode of the thread.
#include <algorithm>
#include <bit>
#include <cstring>

#include "penstock/ops/cpu/bf16/tiles.h"
#include "penstock/ops/cpu/flush_denormals.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::bf16 {
namespace {

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

/// Calls add(pair of a's row, pairs of sixteen columns of b) for pairs [begin, end) of depth.
template <class Add>
PENSTOCK_INLINE void over_pairs(const PanelProduct& p, const Pair* a, const Pair* b,
                                std::int64_t begin, std::int64_t end, const Add& add) {
  for (std::int64_t k = begin; k < end; ++k) {
    UInt16 columns;
    std::memcpy(&columns, b + k * kPanel, sizeof(columns));
    add(halves(UInt16{} + a[k * p.a_pair]), halves(columns));
  }
}

struct Avx512Sum {
  PENSTOCK_INLINE static Vec16 of(const PanelProduct& p, const Pair* a, const Pair* b,
                                  const Vec16& start) {
    Vec16 sum = start;
    over_pairs(
        p, a, b, 0, p.pairs, [&](const Halves& x, const Halves& y) __attribute__((always_inline)) {
          sum = fused(x.first, y.first, fused(x.second, y.second, sum));
        });
    return sum;
  }
};

struct AmxSum {
  PENSTOCK_INLINE static Vec16 of(const PanelProduct& p, const Pair* a, const Pair* b,
                                  const Vec16& start) {
    Vec16 sum = start;
    for (std::int64_t k = 0; k < p.pairs; k += kTilePairs) {
      Vec16 first{}, second{};
      over_pairs(
          p, a, b, k, std::min(k + kTilePairs, p.pairs),
          [&](const Halves& x, const Halves& y) __attribute__((always_inline)) {
            first = fused(x.first, y.first, first);
            second = fused(x.second, y.second, second);
          });
      sum += first + second;
    }
    return sum;
  }
};

template <class Sum>
PENSTOCK_INLINE void tiles(const PanelProduct& p, const Pair* a, const Pair* b, float* c) {
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = 0; j < p.columns; j += 16) {
      float* to = c + i * p.c_row + j;
      const std::size_t bytes = sizeof(float) * std::min<std::int64_t>(16, p.columns - j);
      Vec16 sum{};
      if (p.accumulate) std::memcpy(&sum, to, bytes);
      sum = Sum::of(p, a + i * p.a_row, b + j, sum);
      std::memcpy(to, &sum, bytes);
    }
}

PENSTOCK_PER_CPU void avx512_order(const PanelProduct& p, const Pair* a, const Pair* b, float* c) {
  tiles<Avx512Sum>(p, a, b, c);
}
PENSTOCK_PER_CPU void amx_order(const PanelProduct& p, const Pair* a, const Pair* b, float* c) {
  tiles<AmxSum>(p, a, b, c);
}

}  // namespace

void emulated_avx512_tiles(const PanelProduct& p, const Pair* a, const Pair* b, float* c) {
  const cpu::FlushDenormals flush;
  avx512_order(p, a, b, c);
}
void emulated_amx_tiles(const PanelProduct& p, const Pair* a, const Pair* b, float* c) {
  const cpu::FlushDenormals flush;
  amx_order(p, a, b, c);
}

}  // namespace penstock::ops::bf16
