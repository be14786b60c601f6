#include "penstock/ops/cpu/attention/attention_lanes.h"

#include "penstock/ops/cpu/attention/attention_heads.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu::attention {
namespace {

PENSTOCK_INLINE Int16 load_int(const std::int32_t* from) {
  Int16 x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}

/// The number of the tile's keys whose products with the vector of rows at `row` were computed.
PENSTOCK_INLINE std::int64_t key_count(const Tile& tile, std::int64_t row) {
  return tile.masked ? std::min(tile.count, tile.block.diagonal_end(row) - tile.first) : tile.count;
}

/// The number of first keys, of those `count`, that all rows of the vector may read, rounded down.
PENSTOCK_INLINE std::int64_t open_count(const Tile& tile, std::int64_t row, std::int64_t count) {
  if (!tile.masked) return count;
  if (tile.first < tile.latest_start) return 0;
  const std::int64_t position = tile.block.first + row / tile.block.group;
  return std::clamp<std::int64_t>((position + 1 - tile.first) / 4 * 4, 0, count);
}

/// Which of sixteen rows may read a key. It uses the signs of differences, because the compiler
/// does not vectorise integer comparisons of this width.
struct Readers {
  Int16 after, before;
  PENSTOCK_INLINE Readers(const Tile& tile, std::int64_t row)
      : after(load_int(tile.position + row) + 1), before(load_int(tile.start + row) - 1) {}
  PENSTOCK_INLINE Int16 of(std::int64_t key) const {
    const Int16 k = Int16{} + static_cast<std::int32_t>(key);
    return ((k - after) & (before - k)) >> 31;
  }
};

}  // namespace

void RowLimits::set(const Block& block, const std::int64_t* start) {
  latest_start_ = 0;
  std::int64_t row = 0;
  for (std::int64_t p = block.first; row < block.rows; ++p) {
    const std::int64_t from = start && p < block.last ? start[p] : 0;
    latest_start_ = std::max(latest_start_, from);
    for (std::int64_t g = 0; g < block.group && row < block.rows; ++g, ++row) {
      position_[row] = static_cast<std::int32_t>(p);
      start_[row] = static_cast<std::int32_t>(from);
    }
  }
}

PENSTOCK_PER_CPU bool softmax_step(const Tile& tile, float* scores, float* most, float* total,
                                   float* shrink) {
  Int16 raised{};
  for (std::int64_t row = 0; row < tile.block.rows; row += kLanes) {
    float* const column = scores + row;
    const std::int64_t stride = tile.stride, first = tile.first;
    const std::int64_t count = key_count(tile, row), open = open_count(tile, row, count);
    const Readers readers(tile, row);
    const Vec16 before = load(most + row);
    // Four chains, so that no maximum waits for another.
    Vec16 high0 = before, high1 = before, high2 = before, high3 = before;
    for (std::int64_t i = 0; i < open; i += 4) {
      high0 = larger(high0, load(column + i * stride));
      high1 = larger(high1, load(column + (i + 1) * stride));
      high2 = larger(high2, load(column + (i + 2) * stride));
      high3 = larger(high3, load(column + (i + 3) * stride));
    }
    for (std::int64_t i = open; i < count; ++i)
      high0 =
          larger(high0, choose(readers.of(first + i), load(column + i * stride), splat(kNothing)));
    const Vec16 now = larger(larger(high0, high1), larger(high2, high3));
    Vec16 sum{};
    for (std::int64_t i = 0; i < open; ++i) {
      const Vec16 p = fast_exp2(load(column + i * stride) - now);
      store(column + i * stride, p);
      sum += p;
    }
    for (std::int64_t i = open; i < count; ++i) {
      const Vec16 p =
          choose(readers.of(first + i), fast_exp2(load(column + i * stride) - now), Vec16{});
      store(column + i * stride, p);
      sum += p;
    }
    const Vec16 factor = fast_exp2(before - now);
    store(most + row, now);
    store(shrink + row, factor);
    store(total + row, load(total + row) * factor + sum);
    raised |= std::bit_cast<Int16>(before - now);  // the sign is set where the largest score rose
  }
  std::int32_t any = 0;
  for (std::int64_t i = 0; i < kLanes; ++i) any |= raised[i];
  return any != 0;
}

PENSTOCK_PER_CPU void slope_step(const Tile& tile, float* scores, float* products,
                                 const float* logsumexp, const float* inner) {
  for (std::int64_t row = 0; row < tile.block.rows; row += kLanes) {
    const std::int64_t stride = tile.stride, first = tile.first;
    const std::int64_t count = key_count(tile, row), open = open_count(tile, row, count);
    const Readers readers(tile, row);
    const Vec16 lse = load(logsumexp + row), subtract = load(inner + row);
    float* s = scores + row;
    float* d = products + row;
    for (std::int64_t i = 0; i < open; ++i, s += stride, d += stride) {
      const Vec16 p = fast_exp2(load(s) - lse);
      store(s, p);
      store(d, p * (load(d) - subtract));
    }
    for (std::int64_t i = open; i < count; ++i, s += stride, d += stride) {
      const Vec16 p = choose(readers.of(first + i), fast_exp2(load(s) - lse), Vec16{});
      store(s, p);
      store(d, p * (load(d) - subtract));
    }
  }
}

PENSTOCK_PER_CPU void scale_rows(float* x, std::int64_t rows, std::int64_t hd,
                                 const float* factor) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float f = factor[r];
#pragma omp simd
    for (std::int64_t i = 0; i < hd; ++i) x[r * hd + i] *= f;
  }
}

PENSTOCK_PER_CPU void finish_rows(std::int64_t rows, float* most, float* total) {
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    const Vec16 sum = load(total + r);
    store(most + r, load(most + r) * kLn2 + fast_log(sum));
    store(total + r, 1.0f / sum);
  }
}

PENSTOCK_PER_CPU void row_dots(const float* a, const float* b, std::int64_t rows, std::int64_t hd,
                               float* scratch, float* out) {
  for (std::int64_t r = 0; r < rows; ++r, a += hd, b += hd) {
    Vec16 total{};
    std::int64_t i = 0;
    for (; i + kLanes <= hd; i += kLanes) total += load(a + i) * load(b + i);
    for (; i < hd; ++i) total[0] += a[i] * b[i];
    store(scratch + r * kLanes, total);
  }
  float* const by_lane = scratch + rows * kLanes;  // [16, rows]
  transpose(scratch, rows, kLanes, by_lane, rows);
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    Vec16 total{};
    for (std::int64_t i = 0; i < kLanes; ++i) total += load(by_lane + i * rows + r);
    store(out + r, total);
  }
}

}  // namespace penstock::ops::cpu::attention
