// Attention with relative positions, backward, with products in bf16. All operands of the products
// are rounded, the weights and the gradients of the scores too. These two are computed in f32; all
// sums are f32.
#include "penstock/ops/cpu/attention/relative_backward.h"

#include "penstock/ops/cpu/bf16/attention_operands.h"
#include "penstock/ops/cpu/bf16/relative_operands.h"

namespace penstock::ops::bf16 {
namespace {

using cpu::relative::Block;
using cpu::relative::by_key;
using cpu::relative::KeyValues;
using cpu::relative::kRows;
using cpu::relative::Shape;

constexpr std::int64_t kRowPairs = kRows / 2;  // pairs of rows of a block

/// The pairs of a strip's row by distance, with a zero after the last column.
std::int64_t shifted_pairs(const Shape& shape) { return (shape.keys + kRows) / 2 + 1; }
std::int64_t by_distance_pairs(const Shape& shape) {
  return panel_pairs(shape.keys + kRows, kRowPairs);
}

class RelativeBackwardProducts {
 public:
  struct Work : cpu::relative::BackwardWork {
    Work(const Shape& shape, Scratch::Cursor cursor) : BackwardWork(shape, cursor) {
      key_columns = take_pairs(cursor, key_column_pairs(shape));
      value_columns = take_pairs(cursor, key_column_pairs(shape));
      key_rows = take_pairs(cursor, key_row_pairs(shape));
      for (Pair** rows : {&contents, &positions, &grads})
        *rows = take_pairs(cursor, kRowPairs * shape.hd);
      for (Pair** panels : {&content_panels, &position_panels, &grad_panels})
        *panels = take_pairs(cursor, panel_pairs(shape.hd, kRowPairs));
      slopes = take_pairs(cursor, kRowPairs * shape.padded_keys());
      shifted = take_pairs(cursor, kRows * shifted_pairs(shape));
      strip_panels = take_pairs(cursor, by_distance_pairs(shape));
    }
    static std::int64_t size(const Shape& shape) {
      return BackwardWork::size(shape) + 2 * key_column_pairs(shape) + key_row_pairs(shape) +
             3 * (kRowPairs * shape.hd + panel_pairs(shape.hd, kRowPairs)) +
             kRowPairs * shape.padded_keys() + kRows * shifted_pairs(shape) +
             by_distance_pairs(shape);
    }
    ProductBatch batch;
    Pair *key_columns, *value_columns;                     ///< hd deep
    Pair* key_rows;                                        ///< hd columns, the keys deep
    Pair *contents, *positions, *grads;                    ///< [kRows][hd / 2]
    Pair *content_panels, *position_panels, *grad_panels;  ///< hd columns, a block's rows deep
    Pair *slopes, *shifted;  ///< [kRows][padded / 2] by key, [kRows][shifted_pairs] by distance
    Pair* strip_panels;      ///< a strip's columns, its rows deep
  };

  RelativeBackwardProducts(const Shape& shape, const at::Tensor& r)
      : shape_(shape), distances_(shape, r, true) {}

  std::int64_t distances() const { return distances_.range().count; }
  std::int64_t farthest() const { return distances_.range().farthest; }

  void take_head(const KeyValues& x, Work& work) const {
    float* const rows = work.d_values;
    cpu::relative::pack_keys(shape_, x.keys, x.stride, rows, nullptr, nullptr);
    pack_key_columns(shape_, rows, work.key_columns);
    pack_key_rows(shape_, rows, work.key_rows);
    cpu::relative::pack_keys(shape_, x.values, x.stride, rows, nullptr, nullptr);
    pack_key_columns(shape_, rows, work.value_columns);
  }
  void scores(std::int64_t h, const Block& block, Work& work) const {
    take_rows(block, work.content, work.contents, work.content_panels);
    take_rows(block, work.position, work.positions, work.position_panels);
    take_rows(block, work.dy, work.grads, work.grad_panels);
    multiply_by_key(shape_, block, work.contents, work.key_columns, work.strip);
    multiply_by_key(shape_, block, work.grads, work.value_columns, work.d_strip);
    add_by_distance(shape_, block, work.positions, distances_, h, work.strip);
  }
  void gradients(std::int64_t h, const Block& block, Work& work, float* d_distances) const {
    const std::int64_t stride = shape_.stride(), key_pairs = shape_.padded_keys() / 2;
    const float* const by_keys = by_key(work.d_strip);
    over_rows(block, block.columns, {by_key(work.strip), stride}, work.grad_panels, work.d_values,
              work);
    over_rows(block, block.columns, {by_keys, stride}, work.content_panels, work.d_keys, work);
    for (std::int64_t p = 0; p < block.rows; ++p)
      round_rows(1, block.columns, by_keys + p * stride, work.slopes + p * key_pairs);
    multiply_rows(shape_, block,
                  {.pairs = block.columns / 2, .a_row = key_pairs, .b_panel = key_pairs * kPanel},
                  work.slopes, work.key_rows, work.d_content);
    distance_gradients(h, block, work, d_distances);
  }

 private:
  /// Rows of a strip.
  struct StripRows {
    const float* first;
    std::int64_t stride;
    const float* row(std::int64_t p) const { return first + p * stride; }
  };

  void take_rows(const Block& block, const float* from, Pair* rows, Pair* panels) const {
    round_rows(block.rows, shape_.hd, from, rows);
    pack_rows(0, (block.rows + 1) / 2, block.rows, shape_.hd, from, panels, kRowPairs * kPanel);
  }

  /// sums [columns, hd] += stripᵀ · panels.
  void over_rows(const Block& block, std::int64_t columns, const StripRows& strip,
                 const Pair* panels, float* sums, Work& work) const {
    for (std::int64_t p = 0; p < block.rows; p += 2)
      pack_row_pair(columns, strip.row(p), p + 1 < block.rows ? strip.row(p + 1) : nullptr,
                    work.strip_panels + p / 2 * kPanel, kRowPairs * kPanel);
    multiply({.rows = columns,
              .columns = shape_.hd,
              .pairs = (block.rows + 1) / 2,
              .a_row = 0,
              .a_panel = kRowPairs * kPanel,
              .b_panel = kRowPairs * kPanel,
              .c_row = shape_.hd,
              .accumulate = true},
             work.strip_panels, panels, sums);
  }

  /// Computes d(q + v) and the gradients by distance.
  void distance_gradients(std::int64_t h, const Block& block, Work& work, float* sums) const {
    const DistanceRange& range = distances_.range();
    const std::int64_t columns = DistanceRange::columns(block), pairs = shifted_pairs(shape_);
    const StripRows shifted{by_distance(work.d_strip), shape_.stride() + 1};
    over_rows(block, columns, shifted, work.position_panels, sums + range.first(block) * shape_.hd,
              work);
    for (std::int64_t p = 0; p < block.rows; ++p) {
      auto* const to = reinterpret_cast<std::uint16_t*>(work.shifted + p * pairs);
      round_row(columns, shifted.row(p), to);
      to[columns] = 0;
    }
    multiply_rows(shape_, block,
                  {.pairs = (columns + 1) / 2, .a_row = pairs, .b_panel = distances_.row_panel()},
                  work.shifted, distances_.rows(h) + range.first(block) / 2 * kPanel,
                  work.d_position);
  }

  Shape shape_;
  DistancePanels distances_;
};

}  // namespace

RelativeGradient relative_attention_backward(const at::Tensor& grad, const RelativeProblem& problem,
                                             const at::Tensor& y, const at::Tensor& logsumexp) {
  if (problem.q.numel() == 0)
    return reference::relative_attention_backward(grad, problem, y, logsumexp);
  return cpu::relative::BackwardPass<RelativeBackwardProducts>(problem, grad, y, logsumexp).run();
}

}  // namespace penstock::ops::bf16
