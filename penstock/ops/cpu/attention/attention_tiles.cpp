#include "penstock/ops/cpu/attention/attention_tiles.h"

#include <ATen/ATen.h>
#include <omp.h>

#include "penstock/ops/optional_tensor.h"

namespace penstock::ops::cpu::attention {
namespace {

/// The positions of a block, for a sequence with `length` queries.
std::int64_t most_positions(std::int64_t group, std::int64_t length) {
  return std::clamp<std::int64_t>(kRows / group, 1, std::max<std::int64_t>(1, length));
}

}  // namespace

Shape::Shape(const at::Tensor& qkv, const AttentionOptions& options)
    : batch(qkv.size(0)),
      length(qkv.size(1)),
      heads(options.heads),
      kv_heads(options.kv_heads),
      group(heads / kv_heads),
      hd(options.head_dim(qkv)),
      positions(most_positions(group, length)),
      rows(round_up(positions * group)) {}

Shape::Shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t hd, std::int64_t fresh_from,
             std::int64_t length)
    : batch(1),
      length(length),
      heads(heads),
      kv_heads(kv_heads),
      group(heads / kv_heads),
      hd(hd),
      fresh_from(fresh_from),
      positions(most_positions(group, length - fresh_from)),
      rows(round_up(positions * group)) {}

RowStarts::RowStarts(const Shape& shape, const AttentionOptions& options)
    : start_(contiguous_if_defined(options.start)),
      data_(data_or_null<std::int64_t>(start_)),
      length_(shape.length) {}

Block::Block(const Shape& shape, std::int64_t first_position, const std::int64_t* start)
    : first(first_position),
      last(std::min(first + shape.positions, shape.length)),
      low(start ? round_down(*std::min_element(start + first, start + last)) : 0),
      edge(std::max(low, round_down(first))),
      high(round_up(last)),
      rows(round_up((last - first) * shape.group)),
      group(shape.group) {}

TileProducts score_products(const Shape& shape) {
  return {shape, [&](std::int64_t keys, std::int64_t rows) {
            return xsmm::ProductShape{.rows = keys,
                                      .columns = rows,
                                      .depth = shape.hd,
                                      .a_stride = shape.hd,
                                      .b_stride = shape.rows,
                                      .c_stride = shape.rows};
          }};
}

TileProducts row_products(const Shape& shape, bool accumulate) {
  return {shape, [&](std::int64_t keys, std::int64_t rows) {
            return xsmm::ProductShape{.rows = rows,
                                      .columns = shape.hd,
                                      .depth = keys,
                                      .a_stride = shape.rows,
                                      .b_stride = shape.hd,
                                      .c_stride = shape.hd,
                                      .transpose_a = true,
                                      .accumulate = accumulate};
          }};
}

TileProducts key_products(const Shape& shape) {
  return {shape, [&](std::int64_t keys, std::int64_t rows) {
            return xsmm::ProductShape{.rows = keys,
                                      .columns = shape.hd,
                                      .depth = rows,
                                      .a_stride = shape.rows,
                                      .b_stride = shape.hd,
                                      .c_stride = shape.hd,
                                      .accumulate = true};
          }};
}

Scratch::Scratch(std::int64_t floats_per_thread)
    : memory_(at::empty({omp_get_max_threads(), round_up(floats_per_thread)},
                        at::TensorOptions().dtype(at::kFloat))) {}

Scratch::Cursor Scratch::mine() const {
  return {memory_.data_ptr<float>() + omp_get_thread_num() * memory_.size(1)};
}

}  // namespace penstock::ops::cpu::attention
