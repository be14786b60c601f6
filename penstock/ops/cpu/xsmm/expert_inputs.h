// What feeds the experts' activation, for one block: the products that forward runs and that
// backward runs again where nothing was kept. The same calls on the same numbers, so bit for bit.
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

/// Where a panel's tiles lie among a block's kept values: all panels before it are full.
inline std::int64_t kept_offset(const Operands& in, const Block& block, std::int64_t panel) {
  return block.kept + panel * kPanel * in.inputs * block.width();
}

}  // namespace penstock::ops::xsmm
