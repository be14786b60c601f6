// The innermost loops of the bf16 products: one panel of b, in tiles of registers.
#pragma once

#include "penstock/ops/cpu/bf16/pair_product.h"

#if defined(__x86_64__)
#define PENSTOCK_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif

namespace penstock::ops::bf16 {

/// c [rows, columns ≤ kPanel] (+)= a·b of one panel of b; pair p of a's row i at
/// a[i·a_row + p·a_pair].
struct PanelProduct {
  std::int64_t rows, columns, pairs;
  std::int64_t a_row, a_pair, c_row;
  bool accumulate;
};

/// Pairs of a tile. AMX sums the first products of these pairs, and their second products. Then it
/// adds the sum of both to the result.
inline constexpr std::int64_t kTilePairs = 16;

/// REQUIRES: available(ProductUnit::avx512).
void avx512_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);
/// The sums of avx512_tiles by f32 instructions. An f32 product of two bf16 is exact.
void emulated_avx512_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);
/// AMX's sums by f32 instructions.
void emulated_amx_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);

}  // namespace penstock::ops::bf16
