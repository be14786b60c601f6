// The experts' activation on a transposed tile [columns of f, rows of a block], between two small
// products. Rows lie along the lanes, so a row's weight and its sums are vectors.
#pragma once

#include <cstdint>

#include "penstock/ops/ops.h"

namespace penstock::ops::cpu {

/// Sizes of one panel of one block. The tile of the m inputs is [m][columns][rows], dense.
struct TileShape {
  std::int64_t columns, rows;  ///< rows: a multiple of 16
};

/// in[j][r] += bias[j] for one of the m inputs.  in [columns, rows]
void add_bias(const TileShape& shape, const float* bias, float* in);

/// h [columns, rows] = silu(g) ⊙ u (swiglu: in = {g, u}) or max(in, 0) (relu).
void activation_forward(Activation activation, const TileShape& shape, const float* in, float* h);

/// With p = w_outᵀ·d_output (unweighted) and w a row's weight:
///   h ← w·act(in);  d_weight += Σ over columns of act(in)·p;  d_in ← w·p·act'(in)
/// p [columns, rows], dense; d_in [m][columns][rows] and h [columns, rows] with `stride` from row
/// to row; weight, d_weight [rows].
void activation_backward(Activation activation, const TileShape& shape, const float* in,
                         const float* p, const float* weight, std::int64_t stride, float* d_in,
                         float* h, float* d_weight);

/// out[j] += Σ over rows of x[j].  x [columns, rows] with `stride` from row to row.
void add_row_sums(const TileShape& shape, const float* x, std::int64_t stride, float* out);

}  // namespace penstock::ops::cpu
