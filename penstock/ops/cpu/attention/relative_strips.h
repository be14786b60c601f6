// The parts that relative attention's forward and backward share: blocks of query rows, their
// strips of scores, the packed operands of a head, and the products of every shape that occurs.
//
// A strip holds the scores of a block against all keys that its last row reads, row-major. Each row
// has a margin of kRows floats before it. Row p of the block is one position later than row p − 1.
// So the scores (q + v)·r, ordered by distance, belong one column further right in each row. Their
// product writes with a row stride that is longer by one, which puts each score at its key: the
// shift of the paper's Appendix B costs nothing. Scores before key 0 land in the margin. A product
// that reads a gradient by key with the same stride gets the gradient by distance. The margin must
// then be zero.
//
// Distances are packed backwards: column c stands for distance K − 1 − c.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "penstock/ops/cpu/tile_product.h"
#include "penstock/ops/relative_attention.h"

namespace penstock::ops::cpu::relative {

constexpr std::int64_t kRows = 64;     ///< rows of a full block, and the margin of a strip's row
constexpr std::int64_t kColumns = 64;  ///< columns of a product
constexpr std::int64_t kStep = 16;     ///< a strip's columns are rounded up to this

constexpr std::int64_t round_up(std::int64_t n) { return (n + kStep - 1) / kStep * kStep; }

/// Keys and values of one head of one sequence, [K, hd] each, with a row stride.
struct KeyValues {
  const float *keys, *values;
  std::int64_t stride;
};

struct Shape {
  explicit Shape(const RelativeProblem& problem);
  std::int64_t batch, length, keys, heads, hd;
  /// Head h of sequence b of kv [B, K, 2·H·hd].
  KeyValues head_of(const at::Tensor& kv, std::int64_t b, std::int64_t h) const {
    const float* const from = kv.data_ptr<float>() + b * keys * 2 * width() + h * hd;
    return {.keys = from, .values = from + width(), .stride = 2 * width()};
  }
  std::int64_t memory() const { return keys - length; }
  std::int64_t width() const { return heads * hd; }
  std::int64_t padded_keys() const { return round_up(keys); }
  /// The columns of packed distances. They are padded, because a block's distances may begin at any
  /// column.
  std::int64_t distances() const { return keys + kStep; }
  std::int64_t stride() const { return kRows + padded_keys(); }
  std::int64_t strip() const { return kRows * stride(); }
  /// Parts of the batch. Each part sums its own gradients of r, u and v. The number of parts does
  /// not depend on the number of threads.
  std::int64_t parts() const { return std::min<std::int64_t>(batch, 4); }
};

/// Query rows [first, first + rows).
struct Block {
  Block(const Shape& shape, std::int64_t begin)
      : first(begin),
        rows(std::min(kRows, shape.length - begin)),
        columns(round_up(shape.memory() + begin + rows)),
        distance(shape.length - begin - rows),
        before(shape.memory() + begin) {}
  std::int64_t first, rows;
  std::int64_t columns;   ///< columns of the strip: the keys that the last row reads, rounded up
  std::int64_t distance;  ///< packed column of the farthest distance
  std::int64_t before;    ///< row p reads keys [0, before + p]
  std::int64_t reads(std::int64_t p) const { return before + p + 1; }
};

/// Calls body(column, count) for a block's columns, kColumns at a time.
template <class Body>
void each_chunk(const Block& block, const Body& body) {
  for (std::int64_t c = 0; c < block.columns; c += kColumns)
    body(c, std::min(kColumns, block.columns - c));
}

/// The place of key 0 in a strip, and the place of the packed distance `block.distance`. The row
/// stride by distance is longer by one.
inline float* by_key(float* strip) { return strip + kRows; }
inline float* by_distance(const Block& block, float* strip) {
  return strip + kRows - block.rows + 1;
}

/// One product for each height of a block (full or last) and each width of a chunk that the keys
/// allow.
class ChunkProducts {
 public:
  /// `product(rows, columns)` gives the product's shape.
  template <class Product>
  ChunkProducts(const Shape& shape, const Product& product) {
    const std::int64_t widest = std::min(kColumns, shape.padded_keys());
    for (const std::int64_t rows : {shape.length >= kRows ? kRows : 0, shape.length % kRows})
      for (std::int64_t columns = kStep; rows > 0 && columns <= widest; columns += kStep)
        products_[rows == kRows][columns / kStep - 1].emplace(product(rows, columns));
  }
  const TileProduct& at(std::int64_t rows, std::int64_t columns) const {
    return *products_[rows == kRows][columns / kStep - 1];
  }

 private:
  std::array<std::array<std::optional<TileProduct>, kColumns / kStep>, 2> products_;
};

/// strip = a·b by key; with `distances`, strip += a·b by distance. a [rows, hd], b [hd, columns]
/// with `b_stride`.
ChunkProducts strip_products(const Shape& shape, std::int64_t b_stride, bool distances);
/// out [rows, hd] += strip·b, by key or by distance; b [columns, hd].
ChunkProducts row_products(const Shape& shape, bool distances);
/// out [columns, hd] += stripᵀ·b, by key or by distance; b [rows, hd].
ChunkProducts column_products(const Shape& shape, bool distances);

/// r of all heads, with the distances packed backwards: `rows` [H, distances, hd] and `columns`
/// [H, hd, distances], padded with zeros.
struct PackedDistances {
  PackedDistances(const Shape& shape, const at::Tensor& r, bool with_rows);
  at::Tensor rows, columns;
};

/// Copies x [K, hd], which has a row stride, to rows [padded, hd] and transposed to columns
/// [hd, padded]. Keys after K are zeros. `rows` or `columns` may be null. The function uses
/// `scratch` [padded, hd] where `rows` is null.
void pack_keys(const Shape& shape, const float* x, std::int64_t stride, float* rows, float* columns,
               float* scratch);

/// content = q + u, position = q + v, [rows, hd].
void add_biases(std::int64_t rows, std::int64_t hd, const float* q, std::int64_t stride,
                const float* u, const float* v, float* content, float* position);

/// Replaces scores by weights: x[j] ← exp(scale·x[j] − most) for j < count, where `most` is the
/// largest scale·x[j]; x[j] ← 0 for count ≤ j < columns. `logsumexp` gets log of Σ exp(scale·x).
/// @return the sum of the weights.
float softmax_row(std::int64_t count, std::int64_t columns, float scale, float* x,
                  float* logsumexp);

/// With p = exp(scale·x − logsumexp):  x ← p,  dp ← p·(dp − inner)·scale, for j < count;
/// x ← 0, dp ← 0 for count ≤ j < columns.
void slope_row(std::int64_t count, std::int64_t columns, float scale, float logsumexp, float inner,
               float* x, float* dp);

/// sums [hd] += Σ over rows of x [rows, hd].
void add_rows(std::int64_t rows, std::int64_t hd, const float* x, float* sums);

}  // namespace penstock::ops::cpu::relative
