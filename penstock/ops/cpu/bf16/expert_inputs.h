// The inputs of the experts' activation. The forward pass computes them; the backward pass computes
// them again where the forward pass kept nothing. Both compute the same sums of the same numbers,
// so the bits are the same.
#pragma once

#include "penstock/ops/cpu/activation_rows.h"
#include "penstock/ops/cpu/bf16/expert_layout.h"

namespace penstock::ops::bf16 {

/// tile [rows][m][lanes] = x [rows, x.row] · W_inᵀ + b_in of a slice of f.
inline void slice_inputs(const Operands& in, const PackedExperts& transposed, std::int64_t expert,
                         std::int64_t slice, std::int64_t rows, const Pair* x, float* tile) {
  const std::int64_t lanes = in.lanes(slice);
  for (std::int64_t i = 0; i < in.inputs; ++i) {
    multiply({.rows = rows,
              .columns = lanes,
              .pairs = in.x.row,
              .a_row = in.x.row,
              .b_panel = transposed.panel(i),
              .c_row = in.inputs * lanes},
             x, transposed.at(expert, i, slice), tile + i * lanes);
    if (const float* bias = in.bias_in(expert, i))
      cpu::add_bias_rows({rows, lanes}, i, in.inputs, in.columns(slice), bias + slice * kInner,
                         tile);
  }
}

}  // namespace penstock::ops::bf16
