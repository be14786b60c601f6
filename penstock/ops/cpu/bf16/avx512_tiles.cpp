// Tiles of bf16 products by AVX512-BF16: six rows by four vectors of columns fill its registers.
#include "penstock/base/error.h"
#include "penstock/ops/cpu/bf16/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::ops::bf16 {
namespace {

constexpr int kRows = 6, kVectors = kPanel / 16;

/// Computes a tile. In the last vector of columns, it reads and writes only the lanes of `mask`.
template <int rows, int vectors>
PENSTOCK_BF16 void tile(const PanelProduct& p, const Pair* a, const Pair* b, float* c,
                        __mmask16 mask) {
  __m512 sum[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j)
      sum[i][j] = p.accumulate ? _mm512_maskz_loadu_ps(j + 1 < vectors ? 0xffff : mask,
                                                       c + i * p.c_row + 16 * j)
                               : _mm512_setzero_ps();
      // Prefetches c for the next tile, which is often not in cache. Beyond the end of c the
      // prefetch has no effect.
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) __builtin_prefetch(c + (i + kRows) * p.c_row + 16 * j, 1);
  for (std::int64_t k = 0; k < p.pairs; ++k, b += kPanel) {
    __m512i columns[vectors];
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) columns[j] = _mm512_loadu_si512(b + 16 * j);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const __m512i row = _mm512_set1_epi32(static_cast<int>(a[i * p.a_row + k * p.a_pair]));
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j)
        sum[i][j] = _mm512_dpbf16_ps(sum[i][j], (__m512bh)row, (__m512bh)columns[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j)
      _mm512_mask_storeu_ps(c + i * p.c_row + 16 * j, j + 1 < vectors ? 0xffff : mask, sum[i][j]);
}

struct Tile {
  void (*run)(const PanelProduct&, const Pair*, const Pair*, float*, __mmask16);
};

template <int rows, int... vectors>
constexpr std::array<Tile, kVectors> tiles_of(std::integer_sequence<int, vectors...>) {
  return {Tile{tile<rows, vectors + 1>}...};
}
template <int... rows>
constexpr std::array<std::array<Tile, kVectors>, kRows> all_tiles(
    std::integer_sequence<int, rows...>) {
  return {tiles_of<rows + 1>(std::make_integer_sequence<int, kVectors>())...};
}
/// [rows − 1][vectors − 1]
constexpr auto kTiles = all_tiles(std::make_integer_sequence<int, kRows>());

}  // namespace

void avx512_tiles(const PanelProduct& p, const Pair* a, const Pair* b, float* c) {
  const std::int64_t vectors = (p.columns + 15) / 16;
  const auto mask = static_cast<__mmask16>(0xffff >> (16 * vectors - p.columns));
  for (std::int64_t i = 0; i < p.rows; i += kRows)
    kTiles[std::min<std::int64_t>(kRows, p.rows - i) - 1][vectors - 1].run(p, a + i * p.a_row, b,
                                                                           c + i * p.c_row, mask);
}

}  // namespace penstock::ops::bf16

#else

namespace penstock::ops::bf16 {

void avx512_tiles(const PanelProduct&, const Pair*, const Pair*, float*) {
  assertion_failed("a declined problem is not run", "no bf16 instructions");
}

}  // namespace penstock::ops::bf16

#endif
