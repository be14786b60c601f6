// Causal attention forward with products in bf16. Keys, values, queries and the weights of a tile
// are rounded; scores, softmax and sums are f32. A row's weights are relative to its largest score
// so far. At the end, the f32 sum of the weights divides the row.
#include "penstock/ops/cpu/attention/attention_forward.h"

#include "penstock/ops/cpu/bf16/attention_operands.h"

namespace penstock::ops::bf16 {
namespace {

using namespace cpu::attention;

class Products {
 public:
  struct Work : ForwardWork {
    Work(const Shape& shape, Scratch::Cursor cursor)
        : ForwardWork(shape, cursor),
          key_rows(take_pairs(cursor, key_row_pairs(shape))),
          value_panels(take_pairs(cursor, key_panel_pairs(shape))),
          queries(take_pairs(cursor, transposed_pairs(shape))),
          weights(take_pairs(cursor, tile_panel_pairs(shape))) {}
    static std::int64_t size(const Shape& shape) {
      return ForwardWork::size(shape) + key_row_pairs(shape) + key_panel_pairs(shape) +
             transposed_pairs(shape) + tile_panel_pairs(shape);
    }
    ProductBatch batch;
    Pair* key_rows;      ///< [T][hd / 2]
    Pair* value_panels;  ///< hd columns, T deep
    Pair* queries;       ///< a panel of rows, hd deep
    Pair* weights;       ///< a panel of rows, a tile's keys deep
  };

  explicit Products(const Shape& shape) : shape_(shape) {}

  void take_heads(Work& work) const {
    round_keys(shape_, work.keys, work.key_rows);
    pack_keys(shape_, work.values, work.value_panels);
  }
  void take_queries(const Block& block, Work& work) const {
    pack_transposed(0, 1, block.rows, shape_.hd, work.rows, work.queries);
  }
  void scores(const Block& block, const TilePart& part, Work& work) const {
    multiply_keys(shape_, block, part, work.key_rows, work.queries, work.tile);
  }
  void values(const Block& block, const TilePart& part, Work& work) const {
    const float* tile = work.tile + part.at;
    for (std::int64_t i = 0; i < part.count; i += 2)
      pack_row_pair(block.rows, tile + i * shape_.rows, tile + (i + 1) * shape_.rows,
                    work.weights + i / 2 * kPanel, kPanel);
    multiply_rows(shape_, block, part, work.weights, work.value_panels, work.rows);
  }

 private:
  Shape shape_;
};

}  // namespace

std::string declines_causal_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  if (options.precision != ProductPrecision::bf16) return "not bf16";
  if (!qkv.is_cpu() || qkv.scalar_type() != at::kFloat) return "not f32 on the CPU";
  if (options.head_dim(qkv) % 2 != 0) return "heads of odd width";
  if (options.heads / options.kv_heads > kPanel) return "more than 64 heads in a group";
  return missing();
}

AttentionResult causal_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  return forward_pass<Products>(qkv, options);
}

}  // namespace penstock::ops::bf16
