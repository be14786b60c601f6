// What relative attention's forward and backward products in bf16 share: how r lies in panels, and
// the scores of a strip.
//
// A product in bf16 begins at a whole panel of b. Blocks of kRows rows from the first on read
// distances that begin kRows apart; so r is packed with zeros in front, as many as the last block
// lacks rows, and the last block reads them as a full one would: what they give falls into the
// strip's margin.
#pragma once

#include <ATen/core/Tensor.h>

#include "penstock/ops/cpu/attention/relative_strips.h"
#include "penstock/ops/cpu/bf16/pack.h"
#include "penstock/ops/cpu/bf16/rounding.h"

namespace penstock::ops::bf16 {

static_assert(cpu::relative::kRows % kPanel == 0);

/// The packed distances [farthest, count): zeros before, the farthest first, as many as keys.
struct DistanceRange {
  explicit DistanceRange(const cpu::relative::Shape& shape)
      : farthest((cpu::relative::kRows - shape.length % cpu::relative::kRows) %
                 cpu::relative::kRows),
        count(farthest + shape.keys) {}
  std::int64_t farthest, count;
  /// Where a block's begin, a multiple of kRows, and how many it has: its row p + 1 reads them one
  /// column further right.
  std::int64_t first(const cpu::relative::Block& block) const { return count - columns(block); }
  static std::int64_t columns(const cpu::relative::Block& block) {
    return block.before + cpu::relative::kRows;
  }
};

/// Where a block's first packed distance belongs in its strip (row stride longer by one).
inline float* by_distance(float* strip) { return strip + 1; }

/// r of all heads.
class DistancePanels {
 public:
  DistancePanels(const cpu::relative::Shape& shape, const at::Tensor& r, bool with_rows);
  const DistanceRange& range() const { return range_; }
  /// A head's distances as columns, hd deep.
  const Pair* columns(std::int64_t h) const;
  /// hd columns, a head's distances deep.
  const Pair* rows(std::int64_t h) const;
  /// From panel to panel, in pairs.
  std::int64_t column_panel() const { return kPanel * pairs_of(hd_); }
  std::int64_t row_panel() const { return kPanel * pairs_of(range_.count); }

 private:
  DistanceRange range_;
  std::int64_t hd_;
  at::Tensor columns_, rows_;  // [H, pairs] i32
};

/// Rows [rows, hd], rounded, hd / 2 pairs each.
inline void round_rows(std::int64_t rows, std::int64_t hd, const float* from, Pair* to) {
  round_row(rows * hd, from, reinterpret_cast<std::uint16_t*>(to));
}

/// strip = rows · columns by key, of a panel's columns hd deep.
void multiply_by_key(const cpu::relative::Shape& shape, const cpu::relative::Block& block,
                     const Pair* rows, const Pair* columns, float* strip);
/// strip += rows · r by distance.
void add_by_distance(const cpu::relative::Shape& shape, const cpu::relative::Block& block,
                     const Pair* rows, const DistancePanels& distances, std::int64_t h,
                     float* strip);

/// Keys or values [padded, hd] as columns, hd deep, and their pairs.
inline std::int64_t key_column_pairs(const cpu::relative::Shape& shape) {
  return panel_pairs(shape.padded_keys(), pairs_of(shape.hd));
}
/// hd columns, the keys deep.
inline std::int64_t key_row_pairs(const cpu::relative::Shape& shape) {
  return panel_pairs(shape.hd, shape.padded_keys() / 2);
}
void pack_key_columns(const cpu::relative::Shape& shape, const float* rows, Pair* to);
void pack_key_rows(const cpu::relative::Shape& shape, const float* rows, Pair* to);

/// out [block.rows, hd] = a · b: a has `pairs` in each row, b hd columns.
struct RowSums {
  std::int64_t pairs, a_row, b_panel;
};
void multiply_rows(const cpu::relative::Shape& shape, const cpu::relative::Block& block,
                   const RowSums& sums, const Pair* a, const Pair* b, float* out);

}  // namespace penstock::ops::bf16
