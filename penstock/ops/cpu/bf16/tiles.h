// The innermost loops of the bf16 products: one panel of b, in registers' tiles.
#pragma once

#include "penstock/ops/cpu/bf16/product.h"

namespace penstock::ops::bf16 {

/// c [rows, columns ≤ kPanel] (+)= a·b of one panel of b; pair p of a's row i at
/// a[i·a_row + p·a_pair].
struct PanelProduct {
  std::int64_t rows, columns, pairs;
  std::int64_t a_row, a_pair, c_row;
  bool accumulate;
};

/// REQUIRES: processor_has_bf16().
void processor_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);
/// The same sums by f32 instructions, of which a product of two bf16 is exact.
void emulated_tiles(const PanelProduct& product, const Pair* a, const Pair* b, float* c);

}  // namespace penstock::ops::bf16
