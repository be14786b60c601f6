// The elementwise work of attention on a tile [keys, rows] of scores, one row per vector lane.
// Scores are in units of log 2, because the packed keys contain the factor scale · log2 e. So the
// softmax takes 2^x instead of e^x.
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
  const std::int32_t* start;     ///< [rows]: the first key that each row may read
  std::int64_t latest_start;     ///< the largest of `start`
  bool masked;                   ///< whether some row may not read some key
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

/// One step of a softmax over tiles of keys. It raises each row's largest score `most`, and updates
/// `total`. It replaces a score by 2^(score − most), or by 0 where a row may not read the key.
/// `shrink` gets the factor for a row's sums over earlier tiles. In a chunk of keys, the step
/// leaves alone the rows that are before all of these keys.  @return whether any factor is not 1.
bool softmax_step(const Tile& tile, float* scores, float* most, float* total, float* shrink);

/// Multiplies each row of x [rows, hd] by its factor.
void scale_rows(float* x, std::int64_t rows, std::int64_t hd, const float* factor);

/// total ← 1 / total;  most ← the logsumexp, in natural units.
void finish_rows(std::int64_t rows, float* most, float* total);

/// Replaces scores by weights p = 2^(score − logsumexp), and products dy·v by gradients of the
/// scores in natural units, ds = p (product − inner). Both are 0 where a row may not read the key.
void slope_step(const Tile& tile, float* scores, float* products, const float* logsumexp,
                const float* inner);

/// out[r] = Σ_i a[r, i] · b[r, i].  a, b [rows, hd]; out [rows]; `scratch` holds 32 · rows floats.
/// REQUIRES: rows is a multiple of 16.
void row_dots(const float* a, const float* b, std::int64_t rows, std::int64_t hd, float* scratch,
              float* out);

}  // namespace penstock::ops::cpu::attention
