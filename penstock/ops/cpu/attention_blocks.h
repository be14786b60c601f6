// A block of rows of causal attention's forward pass in f32: tile by tile of keys, the scores, one
// step of their softmax, and the product with the values, added to what earlier tiles gave. Where
// queries, keys and values come from is the caller's business.
#pragma once

#include "penstock/ops/cpu/attention_lanes.h"
#include "penstock/ops/cpu/attention_tiles.h"

namespace penstock::ops::cpu::attention {

struct ForwardProducts {
  explicit ForwardProducts(const Shape& shape)
      : scores(score_products(shape)),
        first_values(row_products(shape, false)),
        values(row_products(shape, true)) {}
  TileProducts scores, first_values, values;
};

/// One thread's memory.
struct ForwardWork {
  ForwardWork(const Shape& shape, Scratch::Cursor cursor)
      : keys(cursor.take(shape.padded_length() * shape.hd)),
        values(cursor.take(shape.padded_length() * shape.hd)),
        rows(cursor.take(shape.rows * shape.hd)),
        rows_t(cursor.take(shape.rows * shape.hd)),
        tile(cursor.take(shape.tile_keys() * shape.rows)),
        most(cursor.take(shape.rows)),
        total(cursor.take(shape.rows)),
        shrink(cursor.take(shape.rows)),
        limits(shape) {}
  static std::int64_t size(const Shape& shape) {
    return 2 * shape.padded_length() * shape.hd +
           (2 * shape.hd + shape.tile_keys() + 3) * shape.rows;
  }
  float *keys, *values;          ///< [T, hd]
  float *rows, *rows_t;          ///< [rows, hd]: queries, then sums of values; [hd, rows]
  float* tile;                   ///< [keys, rows]
  float *most, *total, *shrink;  ///< [rows]
  RowLimits limits;
};

/// The output of a block in work.rows, still to be multiplied by work.total, and its logsumexp in
/// work.most.  `work` holds the block's transposed queries, its limits, and packed keys and values.
void attend(const Shape& shape, const ForwardProducts& products, const Block& block,
            ForwardWork& work);

}  // namespace penstock::ops::cpu::attention
