// Packing of matrices for the bf16 products: rounded, and in panels of pairs (pair_product.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/ops/cpu/bf16/product.h"

namespace penstock::ops::bf16 {

/// Packs one pair of depth of panels: rows `first` and `second` of a matrix with `columns` columns,
/// rounded. A null `second` is zeros.  to: the pair's place in the first panel;  panel: the stride
/// from panel to panel, in pairs.
void pack_row_pair(std::int64_t columns, const float* first, const float* second, Pair* to,
                   std::int64_t panel);
/// The same for rows in bf16.
void pack_row_pair(std::int64_t columns, const std::uint16_t* first, const std::uint16_t* second,
                   Pair* to, std::int64_t panel);

/// Packs pairs [first, last) of depth of x [rows, columns]. Pairs beyond the rows of x are zeros.
void pack_rows(std::int64_t first, std::int64_t last, std::int64_t rows, std::int64_t columns,
               const float* x, Pair* to, std::int64_t panel);

/// Packs panels [first, last) of wᵀ, w [n, depth]. A panel has pairs_of(depth) pairs of depth, with
/// zeros beyond the depth.
void pack_transposed(std::int64_t first, std::int64_t last, std::int64_t n, std::int64_t depth,
                     const float* w, Pair* to);

/// A matrix in panels.
struct Panels {
  at::Tensor held;
  std::int64_t pairs = 0;  ///< of depth
  Pair* data() const { return static_cast<Pair*>(held.data_ptr()); }
  std::int64_t panel() const { return pairs * kPanel; }  ///< from panel to panel
};
/// Panels of a matrix with `columns` columns; the values are undefined.
Panels empty_panels(std::int64_t columns, std::int64_t depth);

/// Panels of wᵀ, w [n, depth] f32, contiguous.  Cost: one sweep, on all threads.
Panels transposed_panels(const at::Tensor& w);
/// Panels of x [depth, n], f32 or bf16, contiguous; two rows of x form a pair of depth.
/// Cost: one sweep, on all threads.
Panels row_panels(const at::Tensor& x);

/// Rows of pairs. A zero follows an odd last column.
struct PairRows {
  at::Tensor held;
  std::int64_t row;  ///< pairs from row to row
  const Pair* data() const { return static_cast<const Pair*>(held.data_ptr()); }
};
/// x [n, depth] as rows of pairs: x itself where the depth is even, else a copy.
/// REQUIRES: contiguous bf16.
PairRows pair_rows(const at::Tensor& x);

}  // namespace penstock::ops::bf16
