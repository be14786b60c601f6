// Causal attention backward with products in bf16. All operands of the products are rounded, the
// weights and the gradients of the scores too. These two are computed in f32; all sums are f32.
#include "penstock/ops/cpu/attention/attention_backward.h"

#include "penstock/ops/cpu/bf16/attention_operands.h"

namespace penstock::ops::bf16 {
namespace {

using namespace cpu::attention;

std::int64_t row_panel_pairs(const Shape& shape) { return panel_pairs(shape.hd, shape.rows / 2); }
std::int64_t tile_row_pairs(const Shape& shape) { return shape.tile_keys() * shape.rows / 2; }

class Products {
 public:
  struct Work : BackwardWork {
    Work(const Shape& shape, Scratch::Cursor cursor) : BackwardWork(shape, cursor) {
      for (Pair** rows : {&key_rows, &value_rows}) *rows = take_pairs(cursor, key_row_pairs(shape));
      key_panels = take_pairs(cursor, key_panel_pairs(shape));
      for (Pair** rows : {&transposed_queries, &transposed_grads})
        *rows = take_pairs(cursor, transposed_pairs(shape));
      for (Pair** panels : {&query_panels, &grad_panels})
        *panels = take_pairs(cursor, row_panel_pairs(shape));
      for (Pair** rows : {&weight_rows, &slope_rows})
        *rows = take_pairs(cursor, tile_row_pairs(shape));
      slope_panel = take_pairs(cursor, tile_panel_pairs(shape));
    }
    static std::int64_t size(const Shape& shape) {
      return BackwardWork::size(shape) + key_panel_pairs(shape) + tile_panel_pairs(shape) +
             2 * (key_row_pairs(shape) + transposed_pairs(shape) + row_panel_pairs(shape) +
                  tile_row_pairs(shape));
    }
    ProductBatch batch;
    Pair *key_rows, *value_rows;                  ///< [T][hd / 2]
    Pair* key_panels;                             ///< hd columns, T deep
    Pair *transposed_queries, *transposed_grads;  ///< a panel of rows, hd deep
    Pair *query_panels, *grad_panels;             ///< hd columns, a block's rows deep
    Pair *weight_rows, *slope_rows;               ///< of a part: [keys][rows / 2]
    Pair* slope_panel;                            ///< of a part: a panel of rows, its keys deep
  };

  explicit Products(const Shape& shape) : shape_(shape) {}

  void take_heads(Work& work) const {
    round_keys(shape_, work.keys, work.key_rows);
    round_keys(shape_, work.values, work.value_rows);
    pack_keys(shape_, work.keys, work.key_panels);
  }
  void take_rows(const Block& block, Work& work) const {
    take(block, work.queries, work.transposed_queries, work.query_panels);
    take(block, work.grads, work.transposed_grads, work.grad_panels);
  }
  void scores(const Block& block, const TilePart& part, Work& work) const {
    multiply_keys(shape_, block, part, work.key_rows, work.transposed_queries, work.weights);
    multiply_keys(shape_, block, part, work.value_rows, work.transposed_grads, work.slopes);
  }
  void gradients(const Block& block, const TilePart& part, Work& work) const {
    const std::int64_t row = shape_.rows;
    auto* weights = reinterpret_cast<std::uint16_t*>(work.weight_rows);
    auto* slopes = reinterpret_cast<std::uint16_t*>(work.slope_rows);
    round_row(part.count * row, work.weights + part.at, weights);
    round_row(part.count * row, work.slopes + part.at, slopes);
    for (std::int64_t i = 0; i < part.count; i += 2)
      pack_row_pair(block.rows, slopes + i * row, slopes + (i + 1) * row,
                    work.slope_panel + i / 2 * kPanel, kPanel);
    over_rows(block, part, work.weight_rows, work.grad_panels, work.d_values);
    over_rows(block, part, work.slope_rows, work.query_panels, work.d_keys);
    multiply_rows(shape_, block, part, work.slope_panel, work.key_panels, work.d_queries);
  }

 private:
  void take(const Block& block, const float* rows, Pair* transposed, Pair* panels) const {
    pack_transposed(0, 1, block.rows, shape_.hd, rows, transposed);
    pack_rows(0, block.rows / 2, block.rows, shape_.hd, rows, panels, shape_.rows / 2 * kPanel);
  }
  /// keys += part · rows.
  void over_rows(const Block& block, const TilePart& part, const Pair* tile_rows,
                 const Pair* panels, float* keys) const {
    multiply({.rows = part.count,
              .columns = shape_.hd,
              .pairs = (block.rows - part.skipped) / 2,
              .a_row = shape_.rows / 2,
              .b_panel = shape_.rows / 2 * kPanel,
              .c_row = shape_.hd,
              .accumulate = true},
             tile_rows + part.skipped / 2, panels + part.skipped / 2 * kPanel,
             keys + part.key * shape_.hd);
  }

  Shape shape_;
};

}  // namespace

at::Tensor causal_attention_backward(const at::Tensor& grad, const at::Tensor& qkv,
                                     const at::Tensor& y, const at::Tensor& logsumexp,
                                     const AttentionOptions& options) {
  return backward_pass<Products>(grad, qkv, y, logsumexp, options);
}

}  // namespace penstock::ops::bf16
