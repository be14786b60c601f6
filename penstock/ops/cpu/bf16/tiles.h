// The innermost loops of the bf16 products: one panel of b, in registers' tiles.
#pragma once

#include "penstock/ops/cpu/bf16/pair_product.h"

namespace penstock::ops::bf16 {

/// c [rows, columns ≤ kPanel] (+)= a·b of one panel of b; pair p of a's row i at
/// a[i·a_row + p·a_pair].
struct PanelProduct {
  std::int64_t rows, columns, pairs;
  std::int64_t a_row, a_pair, c_row;
  bool accumulate;
};

/// AMX adds up the first products of so many pairs, and the second ones, and adds both to the sum.
inline constexpr std::int64_t kTilePairs = 16;

/// REQUIRES: available(ProductUnit::avx512).
void avx512_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);
/// The same sums by f32 instructions, of which a product of two bf16 is exact.
void emulated_avx512_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);
/// AMX's sums by f32 instructions.
void emulated_amx_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);

}  // namespace penstock::ops::bf16
