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

/// The memory that a tile of J rows of w prefetches while it computes. The processor does not
/// detect the access pattern of a tile's rows by itself. Rows without gaps are prefetched in the
/// order of memory, which is fastest. Each of the tiles that read the same rows of w prefetches a
/// part, so that memory is busy while all the tiles compute.
template <int J>
struct Fetch {
  const std::byte *next, *end;
  std::int64_t apart, step;  ///< bytes between the J blocks of a step, and from step to step

  /// Prefetches J blocks of kBytes.
  template <std::int64_t kBytes>
  PENSTOCK_INLINE void blocks() {
    if (next >= end) return;
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j)
#pragma GCC unroll 4
      for (std::int64_t line = 0; line < kBytes; line += 64)
        __builtin_prefetch(next + j * apart + line);
    next += step;
  }
};

/// The memory that tile `tile` of `tiles` prefetches; all these tiles read the same J rows of w. It
/// is at least 8192 bytes ahead, because short rows would otherwise arrive too late.
/// @param stride  bytes from row to row
template <class Reader, int J>
PENSTOCK_INLINE Fetch<J> share_of_next(const void* w, std::int64_t stride, std::int64_t depth,
                                       std::int64_t tile, std::int64_t tiles) {
  const std::int64_t row = depth / Reader::kNumbers * Reader::kBytes;
  const bool gaps = stride > row;
  const std::int64_t bytes = gaps ? row : J * row;
  const auto* from = static_cast<const std::byte*>(w) + std::max<std::int64_t>(J * stride, 8192);
  return {.next = from + bytes * tile / tiles,
          .end = from + bytes * (tile + 1) / tiles,
          .apart = gaps ? stride : Reader::kBytes,
          .step = gaps ? Reader::kBytes : J * Reader::kBytes};
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
PENSTOCK_INLINE void dot_tile(const DotOperands& o, Fetch<J> fetch) {
  Vec16 sums[R * J]{};
  const auto* w = static_cast<const std::byte*>(o.w);
  std::int64_t i = 0;
  for (; i + Reader::kNumbers <= o.depth; i += Reader::kNumbers, w += Reader::kBytes) {
    fetch.template blocks<Reader::kBytes>();
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
PENSTOCK_INLINE void dot_lower_tile(const DotOperands& o, std::int64_t rows,
                                    const Fetch<J>& fetch) {
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
    dot_lower_tile<Reader, kTallest, J>(
        o, std::min<std::int64_t>(rows, kTallest),
        share_of_next<Reader, J>(o.w, o.w_stride, o.depth, tile, tiles));
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
