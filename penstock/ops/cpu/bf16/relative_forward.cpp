// Attention with relative positions, forward, with products in bf16. q + u, q + v, keys, values, r
// and the weights are rounded; scores, softmax and sums are f32. The weights are relative to a
// row's largest score.
#include "penstock/ops/cpu/attention/relative_forward.h"

#include "penstock/ops/cpu/bf16/attention_operands.h"
#include "penstock/ops/cpu/bf16/relative_operands.h"

namespace penstock::ops::bf16 {
namespace {

using cpu::relative::Block;
using cpu::relative::by_key;
using cpu::relative::KeyValues;
using cpu::relative::kRows;
using cpu::relative::Shape;

class RelativeForwardProducts {
 public:
  struct Work : cpu::relative::ForwardWork {
    Work(const Shape& shape, Scratch::Cursor cursor)
        : ForwardWork(shape, cursor),
          rows(cursor.take(shape.padded_keys() * shape.hd)),
          keys(take_pairs(cursor, key_column_pairs(shape))),
          values(take_pairs(cursor, key_row_pairs(shape))),
          contents(take_pairs(cursor, kRows * shape.hd / 2)),
          positions(take_pairs(cursor, kRows * shape.hd / 2)),
          weights(take_pairs(cursor, kRows * shape.padded_keys() / 2)) {}
    static std::int64_t size(const Shape& shape) {
      return ForwardWork::size(shape) + shape.padded_keys() * shape.hd + key_column_pairs(shape) +
             key_row_pairs(shape) + kRows * (shape.hd + shape.padded_keys() / 2);
    }
    ProductBatch batch;
    float* rows;                 ///< [padded, hd]
    Pair *keys, *values;         ///< keys: columns, hd deep; values: hd columns, the keys deep
    Pair *contents, *positions;  ///< [kRows][hd / 2]
    Pair* weights;               ///< [kRows][padded / 2]
  };

  RelativeForwardProducts(const Shape& shape, const at::Tensor& r)
      : shape_(shape), distances_(shape, r, false) {}

  void take_head(const KeyValues& x, Work& work) const {
    cpu::relative::pack_keys(shape_, x.keys, x.stride, work.rows, nullptr, nullptr);
    pack_key_columns(shape_, work.rows, work.keys);
    cpu::relative::pack_keys(shape_, x.values, x.stride, work.rows, nullptr, nullptr);
    pack_key_rows(shape_, work.rows, work.values);
  }
  void scores(std::int64_t h, const Block& block, Work& work) const {
    round_rows(block.rows, shape_.hd, work.content, work.contents);
    round_rows(block.rows, shape_.hd, work.position, work.positions);
    multiply_by_key(shape_, block, work.contents, work.keys, work.strip);
    add_by_distance(shape_, block, work.positions, distances_, h, work.strip);
  }
  void values(const Block& block, Work& work) const {
    const std::int64_t pairs = shape_.padded_keys() / 2;
    for (std::int64_t p = 0; p < block.rows; ++p)
      round_rows(1, block.columns, by_key(work.strip) + p * shape_.stride(),
                 work.weights + p * pairs);
    multiply_rows(shape_, block,
                  {.pairs = block.columns / 2, .a_row = pairs, .b_panel = pairs * kPanel},
                  work.weights, work.values, work.out);
  }

 private:
  Shape shape_;
  DistancePanels distances_;
};

}  // namespace

RelativeResult relative_attention(const RelativeProblem& problem) {
  return cpu::relative::forward_pass<RelativeForwardProducts>(problem);
}

}  // namespace penstock::ops::bf16
