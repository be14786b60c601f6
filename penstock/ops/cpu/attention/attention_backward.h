// Causal attention's backward pass, for any kind of products. It recomputes the weights of a tile
// from the scores and the rows' logsumexp. With p = exp(s − lse), D_t = dy_t·y_t and
// ds = p (dy·v − D):
//   dv_s += p·dy,  dk_s += ds·q · scale,  dq_t += ds·k · scale
// One thread computes all rows that read a key/value head, so nothing is added across threads.
#pragma once

#include <ATen/ATen.h>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/attention/attention_heads.h"
#include "penstock/ops/cpu/attention/attention_lanes.h"
#include "penstock/ops/cpu/attention/attention_tiles.h"
#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu::attention {

/// One thread's memory that all kinds of products need.
struct BackwardWork {
  BackwardWork(const Shape& shape, Scratch::Cursor& cursor)
      : keys(cursor.take(shape.padded_length() * shape.hd)),
        values(cursor.take(shape.padded_length() * shape.hd)),
        d_keys(cursor.take(shape.padded_length() * shape.hd)),
        d_values(cursor.take(shape.padded_length() * shape.hd)),
        queries(cursor.take(shape.rows * shape.hd)),
        grads(cursor.take(shape.rows * shape.hd)),
        d_queries(cursor.take(shape.rows * shape.hd)),
        weights(cursor.take(shape.tile_keys() * shape.rows)),
        slopes(cursor.take(shape.tile_keys() * shape.rows)),
        logsumexp(cursor.take(shape.rows)),
        inner(cursor.take(shape.rows)),
        limits(shape) {}
  static std::int64_t size(const Shape& shape) {
    return 4 * shape.padded_length() * shape.hd +
           (3 * shape.hd + 2 * shape.tile_keys() + 2) * shape.rows;
  }
  float *keys, *values, *d_keys, *d_values;  ///< [T, hd]
  float *queries, *grads;                    ///< [rows, hd]; grads: the output's gradients
  float* d_queries;                          ///< [rows, hd]
  float *weights, *slopes;                   ///< [keys, rows]: p and ds
  float *logsumexp, *inner;                  ///< [rows]; inner: D
  RowLimits limits;
};

/// Adds a block's part to the gradients of keys and values. Writes the gradients of the block's
/// queries to work.d_queries.
template <class Products>
void differentiate(const Shape& shape, const Products& products, const Block& block,
                   typename Products::Work& work) {
  const auto step = [&](std::int64_t first, std::int64_t count) {
    slope_step(work.limits.tile(block, first, count), work.weights, work.slopes, work.logsumexp,
               work.inner);
  };
  for (std::int64_t key = block.low; key < block.edge; key += kKeys) {
    const TilePart all{.key = key, .count = std::min(kKeys, block.edge - key)};
    products.scores(block, all, work);
    step(key, all.count);
    products.gradients(block, all, work);
  }
  for (std::int64_t key = block.edge; key < block.high; key += kChunk)
    products.scores(block, block.on_diagonal(key, shape.rows), work);
  step(block.edge, block.high - block.edge);
  for (std::int64_t key = block.edge; key < block.high; key += kChunk)
    products.gradients(block, block.on_diagonal(key, shape.rows), work);
}

/// The results of the forward pass and the gradient of its output, for one call.
class BackwardInputs {
 public:
  BackwardInputs(const Shape& of, const at::Tensor& grad, const at::Tensor& y,
                 const at::Tensor& logsumexp)
      : shape_(of),
        dy_(grad.data_ptr<float>()),
        out_(y.data_ptr<float>()),
        lse_(logsumexp.data_ptr<float>()),
        rows_{.stride = of.heads * of.hd, .heads = of.group, .hd = of.hd} {}

  /// Reads a block's grads, D and logsumexp to `work`, for the heads that read key/value head kv.
  void read(std::int64_t b, std::int64_t kv, const Block& block, BackwardWork& work) const {
    const std::int64_t begin = begin_of(b, kv, block.first), count = block.positions();
    pack(dy_ + begin, block, work.grads);
    // work.d_queries holds the outputs until the queries' gradients overwrite them.
    pack(out_ + begin, block, work.d_queries);
    row_dots(work.grads, work.d_queries, block.rows, shape_.hd, work.weights, work.inner);
    std::fill(work.logsumexp + count * shape_.group, work.logsumexp + block.rows, 0.0f);
    for (std::int64_t g = 0; g < shape_.group; ++g)
      for (std::int64_t p = 0; p < count; ++p)
        work.logsumexp[p * shape_.group + g] =
            kLog2E *
            lse_[(b * shape_.heads + kv * shape_.group + g) * shape_.length + block.first + p];
  }
  void prefetch_next(std::int64_t b, std::int64_t kv, const Block& block) const {
    const std::int64_t next = std::min(block.positions(), shape_.length - block.last);
    const std::int64_t ahead = begin_of(b, kv, block.first) + block.positions() * rows_.stride;
    prefetch_rows(rows_, dy_ + ahead, next, false);
    prefetch_rows(rows_, out_ + ahead, next, false);
  }

 private:
  std::int64_t begin_of(std::int64_t b, std::int64_t kv, std::int64_t position) const {
    return ((b * shape_.length + position) * shape_.heads + kv * shape_.group) * shape_.hd;
  }
  void pack(const float* from, const Block& block, float* to) const {
    pack_rows(rows_, from, block.first, block.positions(), 1.0f, to);
    std::fill(to + block.positions() * shape_.group * shape_.hd, to + block.rows * shape_.hd, 0.0f);
  }

  const Shape& shape_;
  const float *dy_, *out_, *lse_;
  HeadRows rows_;
};

/// `Products` has a type Work, and the functions:
///   take_heads: converts keys and values to the products' operands
///   take_rows: converts a block's queries and grads to the products' operands
///   scores: writes a part's scores to work.weights, and dy·v to work.slopes
///   gradients: adds the products of a part's weights and slopes to the gradients of queries, keys
///     and values
template <class Products>
at::Tensor backward_pass(const at::Tensor& grad_in, const at::Tensor& qkv_in,
                         const at::Tensor& y_in, const at::Tensor& logsumexp,
                         const AttentionOptions& options) {
  const auto qkv = qkv_in.contiguous(), grad = grad_in.contiguous(), y = y_in.contiguous();
  const Shape shape(qkv, options);
  auto d_qkv = at::empty(qkv.sizes(), qkv.options());
  if (d_qkv.numel() == 0) return d_qkv;

  const PackedHeads from(shape, qkv, options), to(shape, d_qkv, options);
  const RowStarts starts(shape, options);
  const float scale = static_cast<float>(options.scale);
  const BackwardInputs inputs(shape, grad, y, logsumexp);
  const Products products(shape);
  using Work = typename Products::Work;
  const Scratch scratch(Work::size(shape));
  parallel_ranges(shape.batch * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Work work(shape, scratch.mine());
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / shape.kv_heads, kv = task % shape.kv_heads;
      from.pack_keys(b, kv, scale * kLog2E, work.keys);
      from.pack_values(b, kv, work.values);
      products.take_heads(work);
      std::fill_n(work.d_keys, shape.padded_length() * shape.hd, 0.0f);
      std::fill_n(work.d_values, shape.padded_length() * shape.hd, 0.0f);
      for (std::int64_t first = 0; first < shape.length; first += shape.positions) {
        const Block block(shape, first, starts.of(b));
        work.limits.set(block, starts.of(b));
        from.pack_queries(b, kv, block, work.queries);
        inputs.read(b, kv, block, work);
        products.take_rows(block, work);
        from.prefetch_next(b, kv, block);
        inputs.prefetch_next(b, kv, block);
        to.prefetch_write(b, kv, block);
        differentiate(shape, products, block, work);
        to.unpack_queries(b, kv, block, kLn2, work.d_queries);  // the keys hold scale · log2 e
      }
      to.unpack_keys(b, kv, scale, work.d_keys);
      to.unpack_values(b, kv, work.d_values);
    }
  });
  return d_qkv;
}

}  // namespace penstock::ops::cpu::attention
