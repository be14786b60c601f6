#include "penstock/ops/cpu/bf16/relative_operands.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::bf16 {

using cpu::relative::Block;
using cpu::relative::Shape;

namespace {

/// A head's panels in the panels of all heads, [H, pairs] i32.
Pair* panels_of(const at::Tensor& all, std::int64_t h) {
  return static_cast<Pair*>(all.data_ptr()) + h * all.size(1);
}

}  // namespace

DistancePanels::DistancePanels(const Shape& shape, const at::Tensor& r, bool with_rows)
    : range_(shape),
      hd_(shape.hd),
      columns_(at::empty({shape.heads, panel_pairs(range_.count, pairs_of(hd_))}, at::kInt)),
      rows_(at::empty({with_rows ? shape.heads : 0, panel_pairs(hd_, pairs_of(range_.count))},
                      at::kInt)) {
  const std::int64_t count = range_.count, panels = (count + kPanel - 1) / kPanel;
  cpu::parallel_ranges(shape.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    at::Tensor backwards = at::zeros({count, hd_}, at::kFloat);
    float* const to = backwards.data_ptr<float>();
    for (std::int64_t h = begin; h < end; ++h) {
      const float* const from = r.data_ptr<float>() + h * hd_;
      for (std::int64_t j = 0; j < shape.keys; ++j)
        std::copy_n(from + j * shape.width(), hd_, to + (count - 1 - j) * hd_);
      pack_transposed(0, panels, count, hd_, to, panels_of(columns_, h));
      if (with_rows)
        pack_rows(0, pairs_of(count), count, hd_, to, panels_of(rows_, h), row_panel());
    }
  });
}

const Pair* DistancePanels::columns(std::int64_t h) const { return panels_of(columns_, h); }
const Pair* DistancePanels::rows(std::int64_t h) const { return panels_of(rows_, h); }

void multiply_by_key(const Shape& shape, const Block& block, const Pair* rows, const Pair* columns,
                     float* strip) {
  multiply({.rows = block.rows,
            .columns = block.columns,
            .pairs = shape.hd / 2,
            .a_row = shape.hd / 2,
            .b_panel = kPanel * pairs_of(shape.hd),
            .c_row = shape.stride()},
           rows, columns, cpu::relative::by_key(strip));
}

void add_by_distance(const Shape& shape, const Block& block, const Pair* rows,
                     const DistancePanels& distances, std::int64_t h, float* strip) {
  const DistanceRange& range = distances.range();
  multiply({.rows = block.rows,
            .columns = DistanceRange::columns(block),
            .pairs = shape.hd / 2,
            .a_row = shape.hd / 2,
            .b_panel = distances.column_panel(),
            .c_row = shape.stride() + 1,
            .accumulate = true},
           rows, distances.columns(h) + range.first(block) / kPanel * distances.column_panel(),
           by_distance(strip));
}

void pack_key_columns(const Shape& shape, const float* rows, Pair* to) {
  const std::int64_t keys = shape.padded_keys();
  pack_transposed(0, (keys + kPanel - 1) / kPanel, keys, shape.hd, rows, to);
}
void pack_key_rows(const Shape& shape, const float* rows, Pair* to) {
  const std::int64_t keys = shape.padded_keys();
  pack_rows(0, keys / 2, keys, shape.hd, rows, to, keys / 2 * kPanel);
}

void multiply_rows(const Shape& shape, const Block& block, const RowSums& sums, const Pair* a,
                   const Pair* b, float* out) {
  multiply({.rows = block.rows,
            .columns = shape.hd,
            .pairs = sums.pairs,
            .a_row = sums.a_row,
            .b_panel = sums.b_panel,
            .c_row = shape.hd},
           a, b, out);
}

std::string declines_relative_attention(const RelativeProblem& problem) {
  if (problem.precision != ProductPrecision::bf16) return "not bf16";
  if (!problem.q.is_cpu() || problem.q.scalar_type() != at::kFloat) return "not f32 on the CPU";
  if (problem.head_dim() % 2 != 0) return "heads of odd width";
  return missing();
}

}  // namespace penstock::ops::bf16
