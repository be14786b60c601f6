// Causal attention's forward pass for a block of rows. For each tile of keys it computes the
// scores, one step of their softmax, and the product with the values. It adds the product to the
// sums over earlier tiles. The caller provides queries, keys and values. The products here are in
// f32; those in bf16 are in bf16/attention_forward.cpp.
#pragma once

#include "penstock/ops/cpu/attention/attention_lanes.h"
#include "penstock/ops/cpu/attention/attention_tiles.h"

namespace penstock::ops::cpu::attention {

/// One thread's memory that all kinds of products need.
struct ForwardWork {
  ForwardWork(const Shape& shape, Scratch::Cursor& cursor)
      : keys(cursor.take(shape.padded_length() * shape.hd)),
        values(cursor.take(shape.padded_length() * shape.hd)),
        rows(cursor.take(shape.rows * shape.hd)),
        tile(cursor.take(shape.tile_keys() * shape.rows)),
        most(cursor.take(shape.rows)),
        total(cursor.take(shape.rows)),
        shrink(cursor.take(shape.rows)),
        limits(shape) {}
  static std::int64_t size(const Shape& shape) {
    return 2 * shape.padded_length() * shape.hd + (shape.hd + shape.tile_keys() + 3) * shape.rows;
  }
  float *keys, *values;          ///< [T, hd]
  float* rows;                   ///< [rows, hd]: queries, then sums of values
  float* tile;                   ///< [keys, rows]
  float *most, *total, *shrink;  ///< [rows]
  RowLimits limits;
};

/// Products in f32.
class ForwardProducts {
 public:
  struct Work : ForwardWork {
    Work(const Shape& shape, Scratch::Cursor cursor)
        : ForwardWork(shape, cursor), rows_t(cursor.take(shape.rows * shape.hd)) {}
    static std::int64_t size(const Shape& shape) {
      return ForwardWork::size(shape) + shape.rows * shape.hd;
    }
    float* rows_t;  ///< [hd, rows]
  };

  explicit ForwardProducts(const Shape& shape);
  /// Converts work.keys and work.values to the products' operands.
  void take_heads(Work&) const {}
  /// Converts a block's queries in work.rows to the products' operands.
  void take_queries(const Block& block, Work& work) const;
  /// Writes the scores of the part's keys and rows to work.tile.
  void scores(const Block& block, const TilePart& part, Work& work) const;
  /// work.rows += the part's weights times the values. A part that begins with the block's first
  /// key overwrites work.rows instead.
  void values(const Block& block, const TilePart& part, Work& work) const;

 private:
  std::int64_t hd_;
  std::int64_t stride_;  ///< from key to key in a tile
  TileProducts scores_, first_values_, values_;
};

/// Writes a block's output to work.rows, and its logsumexp to work.most. The caller must still
/// multiply the output by work.total.
/// REQUIRES: take_heads() and take_queries() were called; work.limits is set to the block.
template <class Products>
void attend(const Shape& shape, const Products& products, const Block& block,
            typename Products::Work& work) {
  std::fill_n(work.most, block.rows, kNothing);
  std::fill_n(work.total, block.rows, 0.0f);
  const auto step = [&](std::int64_t first, std::int64_t count) {
    const Tile tile = work.limits.tile(block, first, count);
    const bool shrinks = softmax_step(tile, work.tile, work.most, work.total, work.shrink);
    if (shrinks && first > block.low) scale_rows(work.rows, block.rows, shape.hd, work.shrink);
  };
  for (std::int64_t key = block.low; key < block.edge; key += kKeys) {
    const TilePart all{.key = key, .count = std::min(kKeys, block.edge - key)};
    products.scores(block, all, work);
    step(key, all.count);
    products.values(block, all, work);
  }
  for (std::int64_t key = block.edge; key < block.high; key += kChunk)
    products.scores(block, block.on_diagonal(key, shape.rows), work);
  step(block.edge, block.high - block.edge);
  for (std::int64_t key = block.edge; key < block.high; key += kChunk)
    products.values(block, block.on_diagonal(key, shape.rows), work);
  finish_rows(block.rows, work.most, work.total);
}

}  // namespace penstock::ops::cpu::attention
