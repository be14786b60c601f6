// The inputs of the experts' activation, for one block. The forward pass computes them; the
// backward pass computes them again where the forward pass kept nothing. Both make the same calls
// on the same numbers, so the bits are the same.
#pragma once

#include "penstock/ops/cpu/activation_tile.h"
#include "penstock/ops/cpu/rows.h"
#include "penstock/ops/cpu/xsmm/expert_products.h"

namespace penstock::ops::xsmm {

/// x [d, w] = the block's rows of hidden, transposed, zero-filled.  `rows` [w, d] is scratch.
inline void gather_transposed(const Operands& in, const Block& block, const float* source,
                              float* rows, float* x) {
  const std::int64_t w = block.width();
  cpu::gather_rows(block.rows, w, in.width, source, in.token + block.begin, rows);
  cpu::transpose(w, in.width, rows, in.width, x, w);
}

/// tile [m][panel][w] = W_in · x + b_in of that panel.
inline void panel_inputs(const Operands& in, const ExpertProducts& products, std::int64_t expert,
                         std::int64_t panel, std::int64_t w, const float* x, float* tile) {
  const std::int64_t columns = in.panel_width(panel), j = panel * kPanel;
  const Product& up = *products.at(columns, w).up;
  for (std::int64_t i = 0; i < in.inputs; ++i) {
    float* part = tile + i * columns * w;
    up(in.in(expert, i) + j * in.width, x, part);
    if (const float* bias = in.bias_in(expert, i)) cpu::add_bias({columns, w}, bias + j, part);
  }
}

/// The offset of a panel's tiles in the kept values. All panels before the panel are full.
inline std::int64_t kept_offset(const Operands& in, const Block& block, std::int64_t panel) {
  return block.kept + panel * kPanel * in.inputs * block.width();
}

}  // namespace penstock::ops::xsmm
