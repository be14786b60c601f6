// Products of a few rows with a row-major matrix, y = x · wᵀ. Generation consists of these
// products. The reading of w bounds their speed; a product reads w once for any number of rows. The
// order of an element's sum depends on neither the number of rows, the row's index nor the type of
// w. So a row's result does not depend on other rows, and equals the result of the same numbers in
// f32. Templates are used inside PENSTOCK_PER_CPU functions only.
#pragma once

#include <algorithm>
#include <cstddef>

#include "penstock/ops/cpu/few_rows/row_readers.h"
#include "penstock/ops/stored_rows.h"

namespace penstock::ops::cpu {

/// The most rows for which operators take their few-row paths.
inline constexpr std::int64_t kFewRows = 16;
/// Rows of w that a product reads side by side.
inline constexpr std::int64_t kDotColumns = 4;

/// Rows of w that a tile prefetches while it computes. The processor does not prefetch them by
/// itself.
struct Fetch {
  const std::byte* from;
  std::int64_t stride;
  int rows;

  /// Prefetches bytes [offset, offset + kBytes) of each row.
  template <std::int64_t kBytes>
  PENSTOCK_INLINE void begin(std::int64_t offset) const {
#pragma GCC unroll 8
    for (std::int64_t line = offset; line < offset + kBytes; line += 64)
      for (int row = 0; row < rows; ++row) __builtin_prefetch(from + row * stride + line);
  }
};

/// The rows that tile `tile` of `tiles` prefetches. All tiles read the same `columns` rows of w.
/// Each tile prefetches its share of the next rows, so that memory is busy while all the tiles
/// compute. Where rows are short, the next rows would arrive too late: a tile prefetches rows at
/// least 8192 bytes ahead.
PENSTOCK_INLINE Fetch share_of_next(const void* w, std::int64_t stride, std::int64_t columns,
                                    std::int64_t tile, std::int64_t tiles) {
  const std::int64_t ahead = std::max<std::int64_t>(columns * stride, 8192);
  return {.from = static_cast<const std::byte*>(w) + ahead + tile * stride,
          .stride = tiles * stride,
          .rows = static_cast<int>((columns - tile + tiles - 1) / tiles)};
}

/// Strides are from row to row; w_stride is in bytes.
struct DotOperands {
  const float* x;  ///< [rows, depth]
  std::int64_t x_stride;
  const void* w;  ///< [columns, depth]
  std::int64_t w_stride;
  std::int64_t depth;
  float* y;  ///< [rows, columns]
  std::int64_t y_stride;
};

/// y[r, j] = x_r · w_j for R rows and J columns.
template <class Reader, int R, int J>
PENSTOCK_INLINE void dot_tile(const DotOperands& o, const Fetch& fetch) {
  Vec16 sums[R * J]{};
  const auto* w = static_cast<const std::byte*>(o.w);
  std::int64_t i = 0;
  for (std::int64_t block = 0; i + Reader::kNumbers <= o.depth;
       i += Reader::kNumbers, w += Reader::kBytes, block += Reader::kBytes) {
    fetch.begin<Reader::kBytes>(block);
    Reader blocks[J];
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) blocks[j].begin(w + j * o.w_stride);
    for (int part = 0; part < Reader::kParts; ++part) {
      const float* x_part = o.x + i + part * Reader::kVectors * kLanes;
#pragma GCC unroll 8
      for (int v = 0; v < Reader::kVectors; ++v) {
        Vec16 of[J];
#pragma GCC unroll 8
        for (int j = 0; j < J; ++j) of[j] = blocks[j].lanes(part, v);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const Vec16 x = load(x_part + r * o.x_stride + v * kLanes);
#pragma GCC unroll 8
          for (int j = 0; j < J; ++j) sums[r * J + j] += x * of[j];
        }
      }
    }
  }
  float totals[R * J];
  store_sums<R * J>(sums, totals);
  // The multiply-adds are fused explicitly. By itself, g++ 14 fuses them for some R and not for
  // others, and a row's result would depend on the number of rows.
  if constexpr (Reader::kNumbers == kLanes)  // rows of larger blocks have no remainder
    for (; i < o.depth; ++i, w += Reader::kBytes / kLanes)
      for (int r = 0; r < R; ++r)
        for (int j = 0; j < J; ++j)
          totals[r * J + j] = __builtin_fmaf(o.x[r * o.x_stride + i],
                                             Reader::one(w + j * o.w_stride), totals[r * J + j]);
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) o.y[r * o.y_stride + j] = totals[r * J + j];
}

/// Runs dot_tile on `rows` rows, at most R.
template <class Reader, int R, int J>
PENSTOCK_INLINE void dot_lower_tile(const DotOperands& o, std::int64_t rows, const Fetch& fetch) {
  if (rows == R)
    dot_tile<Reader, R, J>(o, fetch);
  else if constexpr (R > 1)
    dot_lower_tile<Reader, R - 1, J>(o, rows, fetch);
}

/// Runs dot_tile on any number of rows: tiles of kTallest rows, then one tile of the remaining
/// rows.
template <class Reader, int kTallest, int J>
PENSTOCK_INLINE void dot_columns(DotOperands o, std::int64_t rows) {
  const std::int64_t tiles = (rows + kTallest - 1) / kTallest;
  for (std::int64_t tile = 0; tile < tiles; ++tile, rows -= kTallest) {
    dot_lower_tile<Reader, kTallest, J>(o, std::min<std::int64_t>(rows, kTallest),
                                        share_of_next(o.w, o.w_stride, J, tile, tiles));
    o.x += kTallest * o.x_stride;
    o.y += kTallest * o.y_stride;
  }
}

/// y[r, j] = x_r · w_j for any number of rows and columns.
/// @tparam kTallest  rows of a tile; the processor's registers hold the sums of a tile
template <class Reader, int kTallest = 4>
PENSTOCK_INLINE void dot_rows_of(DotOperands o, std::int64_t rows, std::int64_t columns) {
  std::int64_t j = 0;
  const auto next = [&o](std::int64_t count) {
    o.w = static_cast<const std::byte*>(o.w) + count * o.w_stride;
    o.y += count;
  };
  if (rows == 1)
    for (; j + Reader::kAlone <= columns; j += Reader::kAlone, next(Reader::kAlone))
      dot_columns<Reader, 1, Reader::kAlone>(o, 1);
  for (; j + kDotColumns <= columns; j += kDotColumns, next(kDotColumns))
    dot_columns<Reader, kTallest, kDotColumns>(o, rows);
  for (; j < columns; ++j, next(1)) dot_columns<Reader, 1, 1>(o, rows);
}

/// y[r, j] = x_r · w_j for w of type `type`, compiled for each processor.
/// REQUIRES: depth is whole blocks.
void dot_rows(RowType type, const DotOperands& operands, std::int64_t rows, std::int64_t columns);

/// Converts `rows` consecutive rows of w, of `depth` numbers each, to f32 in y.
void expand_rows(RowType type, const std::byte* w, std::int64_t rows, std::int64_t depth, float* y);

}  // namespace penstock::ops::cpu
