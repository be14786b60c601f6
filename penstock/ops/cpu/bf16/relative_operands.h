// The operands that relative attention's forward and backward products in bf16 share: r in panels,
// keys and values in panels, and the products for the scores of a strip.
//
// A bf16 product starts at the first column of a panel of b. The distances of consecutive blocks
// start kRows columns apart, and kRows is a multiple of a panel. The last block may have fewer
// rows. So r gets as many columns of zeros in front as the last block lacks rows, and the last
// block reads distances like a full block. The results for the zeros fall into the strip's margin.
#pragma once

#include <ATen/core/Tensor.h>

#include "penstock/ops/cpu/attention/relative_strips.h"
#include "penstock/ops/cpu/bf16/pack.h"
#include "penstock/ops/cpu/bf16/rounding.h"

namespace penstock::ops::bf16 {

static_assert(cpu::relative::kRows % kPanel == 0);

/// The columns of packed distances: `farthest` columns of zeros, then one column for each key, the
/// farthest distance first.
struct DistanceRange {
  explicit DistanceRange(const cpu::relative::Shape& shape)
      : farthest((cpu::relative::kRows - shape.length % cpu::relative::kRows) %
                 cpu::relative::kRows),
        count(farthest + shape.keys) {}
  std::int64_t farthest, count;
  /// The first column that a block reads, a multiple of kRows, and the number of columns. Row p + 1
  /// of the block reads the distances one key further right than row p.
  std::int64_t first(const cpu::relative::Block& block) const { return count - columns(block); }
  static std::int64_t columns(const cpu::relative::Block& block) {
    return block.before + cpu::relative::kRows;
  }
};

/// The place in a strip for a block's first packed distance. The row stride is longer by one.
inline float* by_distance(float* strip) { return strip + 1; }

/// r of all heads, rounded, in panels.
class DistancePanels {
 public:
  DistancePanels(const cpu::relative::Shape& shape, const at::Tensor& r, bool with_rows);
  const DistanceRange& range() const { return range_; }
  /// A head's panels with distances as columns, hd deep.
  const Pair* columns(std::int64_t h) const;
  /// A head's panels with hd columns, distances deep. REQUIRES: with_rows.
  const Pair* rows(std::int64_t h) const;
  /// The stride between panels, in pairs.
  std::int64_t column_panel() const { return kPanel * pairs_of(hd_); }
  std::int64_t row_panel() const { return kPanel * pairs_of(range_.count); }

 private:
  DistanceRange range_;
  std::int64_t hd_;
  at::Tensor columns_, rows_;  // [H, pairs] i32
};

/// Rounds contiguous rows [rows, hd] to bf16, hd / 2 pairs each.
inline void round_rows(std::int64_t rows, std::int64_t hd, const float* from, Pair* to) {
  round_row(rows * hd, from, reinterpret_cast<std::uint16_t*>(to));
}

/// strip = rows · columns, by key. `columns` are a head's key or value columns, hd deep.
void multiply_by_key(const cpu::relative::Shape& shape, const cpu::relative::Block& block,
                     const Pair* rows, const Pair* columns, float* strip);
/// strip += rows · r, by distance.
void add_by_distance(const cpu::relative::Shape& shape, const cpu::relative::Block& block,
                     const Pair* rows, const DistancePanels& distances, std::int64_t h,
                     float* strip);

/// The pairs of a head's keys or values [padded, hd] as columns, hd deep.
inline std::int64_t key_column_pairs(const cpu::relative::Shape& shape) {
  return panel_pairs(shape.padded_keys(), pairs_of(shape.hd));
}
/// The pairs of a head's keys or values as hd columns, `padded` deep.
inline std::int64_t key_row_pairs(const cpu::relative::Shape& shape) {
  return panel_pairs(shape.hd, shape.padded_keys() / 2);
}
void pack_key_columns(const cpu::relative::Shape& shape, const float* rows, Pair* to);
void pack_key_rows(const cpu::relative::Shape& shape, const float* rows, Pair* to);

/// out [block.rows, hd] = a · b, summed over `pairs` pairs of depth. b has hd columns.
struct RowSums {
  std::int64_t pairs, a_row, b_panel;
};
void multiply_rows(const cpu::relative::Shape& shape, const cpu::relative::Block& block,
                   const RowSums& sums, const Pair* a, const Pair* b, float* out);

}  // namespace penstock::ops::bf16
