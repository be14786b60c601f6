// Causal attention forward in f32: tile by tile of keys, the scores of a block of rows, one step of
// their softmax, and the product with the values, added to what earlier tiles gave.
#include <ATen/ATen.h>

#include <vector>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/attention_heads.h"
#include "penstock/ops/cpu/attention_lanes.h"
#include "penstock/ops/cpu/attention_tiles.h"
#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu {
namespace {

using namespace attention;

struct Products {
  explicit Products(const Shape& shape)
      : scores(score_products(shape)),
        first_values(row_products(shape, false)),
        values(row_products(shape, true)) {}
  TileProducts scores, first_values, values;
};

/// One thread's memory.
struct Work {
  Work(const Shape& shape, Scratch::Cursor cursor)
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

/// The unscaled output of a block in work.rows, from its transposed queries.
void attend(const Shape& shape, const Products& products, const Block& block, Work& work) {
  std::fill_n(work.most, block.rows, kNothing);
  std::fill_n(work.total, block.rows, 0.0f);
  const auto step = [&](std::int64_t first, std::int64_t count) {
    const Tile tile = work.limits.tile(block, first, count);
    const bool shrinks = softmax_step(tile, work.tile, work.most, work.total, work.shrink);
    if (shrinks && first > block.low) scale_rows(work.rows, block.rows, shape.hd, work.shrink);
  };
  for (std::int64_t key = block.low; key < block.edge; key += kKeys) {
    const std::int64_t count = std::min(kKeys, block.edge - key);
    products.scores.at(count, block.rows)(work.keys + key * shape.hd, work.rows_t, work.tile);
    step(key, count);
    (key == block.low ? products.first_values : products.values)
        .at(count, block.rows)(work.tile, work.values + key * shape.hd, work.rows);
  }
  const auto chunks = [&](const auto& body) {
    for (std::int64_t key = block.edge; key < block.high; key += kChunk)
      body(key, block.skipped(key), work.tile + (key - block.edge) * shape.rows);
  };
  chunks([&](std::int64_t key, std::int64_t skipped, float* tile) {
    products.scores.at(kChunk, block.rows - skipped)(work.keys + key * shape.hd,
                                                     work.rows_t + skipped, tile + skipped);
  });
  step(block.edge, block.high - block.edge);
  chunks([&](std::int64_t key, std::int64_t skipped, float* tile) {
    (key == block.low ? products.first_values : products.values)
        .at(kChunk, block.rows - skipped)(tile + skipped, work.values + key * shape.hd,
                                          work.rows + skipped * shape.hd);
  });
  finish_rows(block.rows, work.most, work.total);
}

}  // namespace

AttentionResult causal_attention(const at::Tensor& qkv_in, const AttentionOptions& options) {
  const auto qkv = qkv_in.contiguous();
  const Shape shape(qkv, options);
  auto y = at::empty({shape.batch, shape.length, shape.heads * shape.hd}, qkv.options());
  auto logsumexp = at::empty({shape.batch, shape.heads, shape.length}, qkv.options());
  if (y.numel() == 0) return {y, logsumexp};

  const PackedHeads from(shape, qkv, options);
  const RowStarts starts(shape, options);
  const float scale = static_cast<float>(options.scale) * kLog2E;
  float* const out = y.data_ptr<float>();
  float* const lse = logsumexp.data_ptr<float>();
  const Products products(shape);
  const Scratch scratch(Work::size(shape));
  parallel_ranges(shape.batch * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Work work(shape, scratch.mine());
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / shape.kv_heads, kv = task % shape.kv_heads;
      from.pack_keys(b, kv, scale, work.keys);
      from.pack_values(b, kv, work.values);
      for (std::int64_t first = 0; first < shape.length; first += shape.positions) {
        const Block block(shape, first, starts.of(b));
        work.limits.set(block, starts.of(b));
        from.pack_queries(b, kv, block, work.rows);
        transpose(work.rows, block.rows, shape.hd, work.rows_t, shape.rows);
        const std::int64_t h = kv * shape.group;
        const HeadRows rows{.stride = shape.heads * shape.hd, .heads = shape.group, .hd = shape.hd};
        float* const to = out + ((b * shape.length + first) * shape.heads + h) * shape.hd;
        from.prefetch_next(b, kv, block);
        prefetch_rows(rows, to, block.positions(), true);
        attend(shape, products, block, work);
        unpack_rows(rows, work.rows, first, block.positions(), 1.0f, to, work.total);
        for (std::int64_t g = 0; g < shape.group; ++g)
          for (std::int64_t p = 0; p < block.positions(); ++p)
            lse[(b * shape.heads + h + g) * shape.length + first + p] =
                work.most[p * shape.group + g];
      }
    }
  });
  return {y, logsumexp};
}

}  // namespace penstock::ops::cpu
