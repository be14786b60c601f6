// The parts that attention's forward and backward products in bf16 share: their operands, and two
// products. A block's rows are one panel.
#pragma once

#include "penstock/ops/cpu/attention/attention_tiles.h"
#include "penstock/ops/cpu/bf16/pack.h"
#include "penstock/ops/cpu/bf16/rounding.h"

namespace penstock::ops::bf16 {

using cpu::attention::Block;
using cpu::attention::Scratch;
using cpu::attention::Shape;
using cpu::attention::TilePart;

inline Pair* take_pairs(Scratch::Cursor& cursor, std::int64_t pairs) {
  return reinterpret_cast<Pair*>(cursor.take(pairs));
}

/// The pairs of [T, hd] as rows, and as panels of hd columns, T deep.
inline std::int64_t key_row_pairs(const Shape& shape) {
  return shape.padded_length() * shape.hd / 2;
}
inline std::int64_t key_panel_pairs(const Shape& shape) {
  return panel_pairs(shape.hd, shape.padded_length() / 2);
}
/// The pairs of a block's rows [rows, hd], transposed.
inline std::int64_t transposed_pairs(const Shape& shape) { return kPanel * pairs_of(shape.hd); }
/// The pairs of a tile [keys, rows] as a panel.
inline std::int64_t tile_panel_pairs(const Shape& shape) { return shape.tile_keys() / 2 * kPanel; }

inline void round_keys(const Shape& shape, const float* from, Pair* rows) {
  round_row(shape.padded_length() * shape.hd, from, reinterpret_cast<std::uint16_t*>(rows));
}
inline void pack_keys(const Shape& shape, const float* from, Pair* panels) {
  const std::int64_t length = shape.padded_length();
  pack_rows(0, length / 2, length, shape.hd, from, panels, length / 2 * kPanel);
}

/// The tile's part = keys · rowsᵀ.  transposed: the rows, transposed.
inline void multiply_keys(const Shape& shape, const Block& block, const TilePart& part,
                          const Pair* key_rows, const Pair* transposed, float* tile) {
  multiply({.rows = part.count,
            .columns = block.rows - part.skipped,
            .pairs = shape.hd / 2,
            .a_row = shape.hd / 2,
            .b_panel = 0,
            .c_row = shape.rows},
           key_rows + part.key * shape.hd / 2, transposed + part.skipped,
           tile + part.at + part.skipped);
}

/// rows += partᵀ · keys. A part that begins with the block's first key overwrites `rows` instead.
/// tile_panel: begins with the part.
inline void multiply_rows(const Shape& shape, const Block& block, const TilePart& part,
                          const Pair* tile_panel, const Pair* key_panels, float* rows) {
  multiply({.rows = block.rows - part.skipped,
            .columns = shape.hd,
            .pairs = part.count / 2,
            .a_row = 0,
            .b_panel = shape.padded_length() / 2 * kPanel,
            .c_row = shape.hd,
            .accumulate = part.key != block.low},
           tile_panel + part.skipped, key_panels + part.key / 2 * kPanel,
           rows + part.skipped * shape.hd);
}

}  // namespace penstock::ops::bf16
