// The experts' activation on a tile [rows of a block, columns of f], between two products. Columns
// lie along the vector lanes. activation_tile.h does the same for a transposed tile.
#pragma once

#include <cstdint>

#include "penstock/ops/dropout.h"
#include "penstock/ops/ops.h"

namespace penstock::ops::cpu {

/// Sizes of a tile. The tile of the m inputs is [rows][m][lanes], dense; other tiles are
/// [rows][lanes].
struct RowsShape {
  std::int64_t rows, lanes;  ///< lanes: a multiple of 16
};

/// in[r][i][j] += bias[j] for j < columns.  i: one of the m inputs.
void add_bias_rows(const RowsShape& shape, std::int64_t i, std::int64_t m, std::int64_t columns,
                   const float* bias, float* in);

/// h = silu(g) ⊙ u (swiglu: in = {g, u}) or max(in, 0) (relu).
void activation_forward_rows(Activation activation, const RowsShape& shape, const float* in,
                             float* h);

/// With p = d_output·w_out (unweighted) and w a row's weight:
///   h ← w·act(in);  d_weight += Σ over columns of act(in)·p;  d_in ← w·p·act'(in)
/// d_in [m][rows][lanes], weight and d_weight [rows].
void activation_backward_rows(Activation activation, const RowsShape& shape, const float* in,
                              const float* p, const float* weight, float* d_in, float* h,
                              float* d_weight);

/// x ⊙= keep / (1 − p). The first row of x is assignment `row`; its first column is column `column`
/// of f.
void drop_rows(const Dropout& dropout, const RowsShape& shape, std::int64_t row,
               std::int64_t column, float* x);

}  // namespace penstock::ops::cpu
