// Matrices as the bf16 products read them: rounded, and in panels of pairs (pair_product.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/ops/cpu/bf16/product.h"

namespace penstock::ops::bf16 {

/// One pair of depth of panels: rows `first` and `second` of a matrix with so many columns,
/// rounded. A null `second` is zeros.  `to` is the pair's place in the first panel, `panel` pairs
/// before that in the next.
void pack_row_pair(std::int64_t columns, const float* first, const float* second, Pair* to,
                   std::int64_t panel);
/// The same of rows that are bf16.
void pack_row_pair(std::int64_t columns, const std::uint16_t* first, const std::uint16_t* second,
                   Pair* to, std::int64_t panel);

/// Pairs [first, last) of panels of x [rows, columns]; beyond its rows they are zeros.
void pack_rows(std::int64_t first, std::int64_t last, std::int64_t rows, std::int64_t columns,
               const float* x, Pair* to, std::int64_t panel);

/// Panels [first, last) of wᵀ, w [n, depth]; each has pairs_of(depth) pairs, zeros beyond the
/// depth.
void pack_transposed(std::int64_t first, std::int64_t last, std::int64_t n, std::int64_t depth,
                     const float* w, Pair* to);

/// A matrix in panels.
struct Panels {
  at::Tensor held;
  std::int64_t pairs = 0;  ///< of depth
  Pair* data() const { return static_cast<Pair*>(held.data_ptr()); }
  std::int64_t panel() const { return pairs * kPanel; }  ///< from panel to panel
};
/// Room for panels of so many columns, undefined values.
Panels empty_panels(std::int64_t columns, std::int64_t depth);

/// wᵀ of w [n, depth] f32, contiguous.  Cost: one sweep, on all threads.
Panels transposed_panels(const at::Tensor& w);
/// x [depth, n], f32 or bf16, contiguous, pairs of its rows.  Cost: one sweep, on all threads.
Panels row_panels(const at::Tensor& x);

/// Rows of pairs, an odd last column followed by a zero.
struct PairRows {
  at::Tensor held;
  std::int64_t row;  ///< pairs from row to row
  const Pair* data() const { return static_cast<const Pair*>(held.data_ptr()); }
};
/// x [n, depth] in bf16: itself where the depth is even.  REQUIRES: contiguous bf16.
PairRows pair_rows(const at::Tensor& x);

}  // namespace penstock::ops::bf16
