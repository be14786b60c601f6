// The elementwise work of attention on a tile [keys, rows] of scores, one row per vector lane.
// Scores are in units of log 2 (keys are packed with scale · log2 e), so that 2^x takes e^x's
// place.
#pragma once

#include <cstdint>

#include "penstock/ops/cpu/attention/attention_tiles.h"

namespace penstock::ops::cpu::attention {

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;
constexpr float kNothing = -1e30f;  ///< the largest score of a row that has read no key yet

/// Keys [first, first + count) against the rows of a block.
struct Tile {
  const Block& block;
  std::int64_t first, count;
  std::int64_t stride;           ///< from key to key
  const std::int32_t* position;  ///< [rows]: the last key that each row may read
  const std::int32_t* start;     ///< [rows]: the first
  std::int64_t latest_start;     ///< the largest of those
  bool masked;                   ///< some row may not read some key
};

/// Which keys each row of a block may read.
class RowLimits {
 public:
  explicit RowLimits(const Shape& shape)
      : stride_(shape.rows), position_(shape.rows), start_(shape.rows) {}
  /// `start` is the sequence's [T] row starts, or null.
  void set(const Block& block, const std::int64_t* start);
  Tile tile(const Block& block, std::int64_t first, std::int64_t count) const {
    return {.block = block,
            .first = first,
            .count = count,
            .stride = stride_,
            .position = position_.data(),
            .start = start_.data(),
            .latest_start = latest_start_,
            .masked = first + count > block.edge || first < latest_start_};
  }

 private:
  std::int64_t stride_, latest_start_ = 0;
  std::vector<std::int32_t> position_, start_;
};

/// One step of a softmax whose keys come tile by tile: raises each row's largest score `most`,
/// turns scores into 2^(score − most), 0 where a row may not read, and brings `total` up to date.
/// `shrink` gets the factor of what was summed over earlier tiles.  Rows that are before all keys
/// of a chunk are left alone there.  @return whether any factor is not 1.
bool softmax_step(const Tile& tile, float* scores, float* most, float* total, float* shrink);

/// x [rows, hd], each row times its factor.
void scale_rows(float* x, std::int64_t rows, std::int64_t hd, const float* factor);

/// total ← 1 / total;  most ← the logsumexp, in natural units.
void finish_rows(std::int64_t rows, float* most, float* total);

/// Scores become weights p = 2^(score − logsumexp), products dy·v become gradients of the natural
/// scores, ds = p (product − inner); both are 0 where a row may not read.
void slope_step(const Tile& tile, float* scores, float* products, const float* logsumexp,
                const float* inner);

/// out [rows] = Σ_i a[r, i] · b[r, i], of a, b [rows, hd].  `scratch` holds 32 · rows floats.
/// REQUIRES: rows is a multiple of 16.
void row_dots(const float* a, const float* b, std::int64_t rows, std::int64_t hd, float* scratch,
              float* out);

}  // namespace penstock::ops::cpu::attention
