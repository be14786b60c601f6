// Causal attention backward in f32.
#include "penstock/ops/cpu/attention/attention_backward.h"

namespace penstock::ops::cpu {
namespace {

using namespace attention;

class Products {
 public:
  struct Work : BackwardWork {
    Work(const Shape& shape, Scratch::Cursor cursor)
        : BackwardWork(shape, cursor),
          queries_t(cursor.take(shape.rows * shape.hd)),
          grads_t(cursor.take(shape.rows * shape.hd)) {}
    static std::int64_t size(const Shape& shape) {
      return BackwardWork::size(shape) + 2 * shape.rows * shape.hd;
    }
    float *queries_t, *grads_t;  ///< [hd, rows]
  };

  explicit Products(const Shape& shape)
      : hd_(shape.hd),
        stride_(shape.rows),
        scores_(score_products(shape)),
        first_queries_(row_products(shape, false)),
        queries_(row_products(shape, true)),
        keys_(key_products(shape)) {}

  void take_heads(Work&) const {}
  void take_rows(const Block& block, Work& work) const {
    transpose(work.queries, block.rows, hd_, work.queries_t, stride_);
    transpose(work.grads, block.rows, hd_, work.grads_t, stride_);
  }
  void scores(const Block& block, const TilePart& part, Work& work) const {
    const TileProduct& product = scores_.at(part.count, block.rows - part.skipped);
    const std::int64_t at = part.at + part.skipped;
    product(work.keys + part.key * hd_, work.queries_t + part.skipped, work.weights + at);
    product(work.values + part.key * hd_, work.grads_t + part.skipped, work.slopes + at);
  }
  void gradients(const Block& block, const TilePart& part, Work& work) const {
    const std::int64_t at = part.at + part.skipped, rows = block.rows - part.skipped;
    const std::int64_t key = part.key * hd_, row = part.skipped * hd_;
    const TileProduct& over_rows = keys_.at(part.count, rows);
    over_rows(work.weights + at, work.grads + row, work.d_values + key);
    over_rows(work.slopes + at, work.queries + row, work.d_keys + key);
    (part.key == block.low ? first_queries_ : queries_)
        .at(part.count, rows)(work.slopes + at, work.keys + key, work.d_queries + row);
  }

 private:
  std::int64_t hd_;
  std::int64_t stride_;  ///< from key to key in a tile
  TileProducts scores_, first_queries_, queries_, keys_;
};

}  // namespace

at::Tensor causal_attention_backward(const at::Tensor& grad, const at::Tensor& qkv,
                                     const at::Tensor& y, const at::Tensor& logsumexp,
                                     const AttentionOptions& options) {
  return backward_pass<Products>(grad, qkv, y, logsumexp, options);
}

}  // namespace penstock::ops::cpu
