// The parts that attention's forward and backward share: the division into blocks of rows and tiles
// of keys, and the products of every shape that occurs. The packing of heads is in
// attention_heads.h, the elementwise work on a tile in attention_lanes.h.
//
// The n heads of a group read the same keys, so their rows are stacked: row p·n + g is head g of
// the block's position p. A tile holds keys × rows, one row per vector lane. The values of each row
// (its largest score, its sum) then form vectors, and nothing is reduced across lanes. On the
// diagonal, a product takes kChunk keys. It leaves out the first rows, which are before all of
// these keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/tile_product.h"

namespace penstock::ops::cpu::attention {

constexpr std::int64_t kKeys = 64;   ///< keys of a tile
constexpr std::int64_t kChunk = 16;  ///< keys and rows are rounded to this: one vector of lanes
constexpr std::int64_t kRows = 64;   ///< rows of a block, unless a group has more heads

constexpr std::int64_t round_down(std::int64_t n) { return n / kChunk * kChunk; }
constexpr std::int64_t round_up(std::int64_t n) { return round_down(n + kChunk - 1); }

/// Sizes of one problem.
struct Shape {
  Shape(const at::Tensor& qkv, const AttentionOptions& options);
  /// One sequence of `length` positions. Positions from `fresh_from` on have queries.
  Shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t hd, std::int64_t fresh_from,
        std::int64_t length);
  std::int64_t batch, length, heads, kv_heads, group, hd;
  std::int64_t fresh_from = 0;  ///< the first position with a query
  std::int64_t positions;       ///< positions of a block: at most kRows / group, at least 1
  std::int64_t rows;            ///< rows of a full block, rounded up to kChunk: a tile's row stride
  std::int64_t width() const { return (heads + 2 * kv_heads) * hd; }
  std::int64_t padded_length() const { return round_up(length); }
  /// Keys of the largest tile. A tile on the diagonal can reach beyond both ends of its block.
  std::int64_t tile_keys() const { return std::max(kKeys, round_up(positions) + kChunk); }
};

/// The options' row starts of each sequence: [T], or null if there are none.
class RowStarts {
 public:
  RowStarts(const Shape& shape, const AttentionOptions& options);
  const std::int64_t* of(std::int64_t b) const { return data_ ? data_ + b * length_ : nullptr; }

 private:
  at::Tensor start_;
  const std::int64_t* data_;
  std::int64_t length_;
};

/// A part of a tile: keys [key, key + count), and the rows after the first `skipped` rows. The
/// part's first key is at float `at` of the tile.
struct TilePart {
  std::int64_t key, count, skipped = 0, at = 0;
};

/// A block of positions [first, last) and the keys [low, high) of its tiles. Keys before `edge` are
/// before all rows of the block; keys from `edge` on are on the diagonal. low, edge and high are
/// multiples of kChunk.
struct Block {
  /// `start` is the sequence's [T] row starts, or null.
  Block(const Shape& shape, std::int64_t first, const std::int64_t* start);
  std::int64_t first, last, low, edge, high;
  std::int64_t rows;   ///< positions() · group, rounded up
  std::int64_t group;  ///< heads per position
  std::int64_t positions() const { return last - first; }
  /// The number of first rows that are before all keys from `key` on, rounded down.
  std::int64_t skipped(std::int64_t key) const {
    return round_down(std::max<std::int64_t>(0, key - first) * group);
  }
  /// kChunk keys of the tile on the diagonal.  stride: from key to key in the tile.
  TilePart on_diagonal(std::int64_t key, std::int64_t stride) const {
    return {.key = key, .count = kChunk, .skipped = skipped(key), .at = (key - edge) * stride};
  }
  /// The end of the keys that the vector of rows from `row` on may read, rounded up.
  std::int64_t diagonal_end(std::int64_t row) const {
    return std::min(high, round_up(first + (row + kChunk - 1) / group + 1));
  }
};

/// One compiled product for every number of keys and rows that occurs.
class TileProducts {
 public:
  /// `product(keys, rows)` gives the product's shape.
  template <class Product>
  TileProducts(const Shape& shape, const Product& product) : row_steps_(shape.rows / kChunk) {
    const std::int64_t left = (shape.length - shape.fresh_from) % shape.positions;
    const std::int64_t last = left ? round_up(left * shape.group) : shape.rows;
    products_.resize(kKeys / kChunk * row_steps_);
    for (std::int64_t keys = kChunk; keys <= kKeys; keys += kChunk)
      for (std::int64_t rows = kChunk; rows <= shape.rows; rows += kChunk)
        if (keys == kChunk || rows == shape.rows || rows == last)
          products_[index(keys, rows)].emplace(product(keys, rows));
  }
  const TileProduct& at(std::int64_t keys, std::int64_t rows) const {
    return *products_[index(keys, rows)];
  }

 private:
  std::int64_t index(std::int64_t keys, std::int64_t rows) const {
    return (keys / kChunk - 1) * row_steps_ + rows / kChunk - 1;
  }
  std::int64_t row_steps_;
  std::vector<std::optional<TileProduct>> products_;
};

/// tile [keys, rows] = keys [keys, hd] · rowsᵀ [hd, rows], of packed rows.
TileProducts score_products(const Shape& shape);
/// out [rows, hd] = tileᵀ · keys [keys, hd]; with `accumulate`, out += the product.
TileProducts row_products(const Shape& shape, bool accumulate);
/// out [keys, hd] += tile · rows [rows, hd].
TileProducts key_products(const Shape& shape);

/// Memory for each thread, aligned to a cache line.
class Scratch {
 public:
  explicit Scratch(std::int64_t floats_per_thread);
  /// A position in a thread's memory. take() returns the next `floats` of the memory.
  struct Cursor {
    float* next;
    float* take(std::int64_t floats) {
      float* const here = next;
      next += round_up(floats);
      return here;
    }
  };
  /// The start of the calling thread's memory.
  Cursor mine() const;

 private:
  at::Tensor memory_;  // [threads, size]
};

}  // namespace penstock::ops::cpu::attention
