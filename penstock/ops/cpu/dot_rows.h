// Products of few rows with a row-major matrix, y = x · wᵀ: what generation consists of. Bound by
// the reading of w, which goes by once whatever the number of rows. An element's sum has the same
// order for any number of rows, any place among them and any type of w, so that a row's result is
// its own, and that of the same numbers in f32.
// Templates are used inside PENSTOCK_PER_CPU functions only.
#pragma once

#include <algorithm>
#include <cstddef>

#include "penstock/ops/cpu/row_readers.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock::ops::cpu {

/// Rows up to which the few-row paths of operators run.
inline constexpr std::int64_t kFewRows = 16;
/// Rows of w that are read side by side.
inline constexpr std::int64_t kDotColumns = 4;

/// Bytes ahead that are fetched while J rows are read side by side: those of the next J rows, or
/// further, where rows are so short that these would come too late.
PENSTOCK_INLINE std::int64_t bytes_ahead(std::int64_t columns, std::int64_t stride) {
  return std::max<std::int64_t>(columns * stride, 8192);
}

/// Strides are from row to row, that of w in bytes.
struct DotOperands {
  const float* x;  ///< [rows, depth]
  std::int64_t x_stride;
  const void* w;  ///< [columns, depth]
  std::int64_t w_stride;
  std::int64_t depth;
  float* y;  ///< [rows, columns]
  std::int64_t y_stride;
};

/// y[r, j] = x_r · w_j for R rows and J columns, of which there are more behind `w`.
template <class Reader, int R, int J>
PENSTOCK_INLINE void dot_tile(const DotOperands& o) {
  Vec16 sums[R * J]{};
  const auto* w = static_cast<const std::byte*>(o.w);
  const std::int64_t ahead = bytes_ahead(J, o.w_stride);
  std::int64_t i = 0;
  for (; i + Reader::kNumbers <= o.depth; i += Reader::kNumbers, w += Reader::kBytes) {
    Reader blocks[J];
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) {
      blocks[j].begin(w + j * o.w_stride);
      // What comes next lies where the processor does not look by itself.
#pragma GCC unroll 8
      for (std::int64_t line = 0; line < Reader::kBytes; line += 64)
        __builtin_prefetch(w + j * o.w_stride + ahead + line);
    }
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
#pragma GCC unroll 16
  for (int s = 0; s < R * J; ++s) totals[s] = sum(sums[s]);
  // Fused by name: left to itself, g++ 14 fuses these for some R and not for others, and a row's
  // result would depend on the rows beside it.
  if constexpr (Reader::kNumbers == kLanes)  // rows of larger blocks have no rest
    for (; i < o.depth; ++i, w += Reader::kBytes / kLanes)
      for (int r = 0; r < R; ++r)
        for (int j = 0; j < J; ++j)
          totals[r * J + j] = __builtin_fmaf(o.x[r * o.x_stride + i],
                                             Reader::one(w + j * o.w_stride), totals[r * J + j]);
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) o.y[r * o.y_stride + j] = totals[r * J + j];
}

/// The same for any number of rows.
template <class Reader, int J>
PENSTOCK_INLINE void dot_columns(DotOperands o, std::int64_t rows) {
  for (; rows >= 4; rows -= 4, o.x += 4 * o.x_stride, o.y += 4 * o.y_stride)
    dot_tile<Reader, 4, J>(o);
  for (; rows >= 2; rows -= 2, o.x += 2 * o.x_stride, o.y += 2 * o.y_stride)
    dot_tile<Reader, 2, J>(o);
  if (rows > 0) dot_tile<Reader, 1, J>(o);
}

/// y[r, j] = x_r · w_j for any number of rows and columns.
template <class Reader>
PENSTOCK_INLINE void dot_rows_of(DotOperands o, std::int64_t rows, std::int64_t columns) {
  std::int64_t j = 0;
  const auto next = [&o](std::int64_t count) {
    o.w = static_cast<const std::byte*>(o.w) + count * o.w_stride;
    o.y += count;
  };
  if (rows == 1)
    for (; j + Reader::kAlone <= columns; j += Reader::kAlone, next(Reader::kAlone))
      dot_tile<Reader, 1, Reader::kAlone>(o);
  for (; j + kDotColumns <= columns; j += kDotColumns, next(kDotColumns))
    dot_columns<Reader, kDotColumns>(o, rows);
  for (; j < columns; ++j, next(1)) dot_columns<Reader, 1>(o, rows);
}

/// The same of w in that type, compiled for each processor. REQUIRES: depth is whole blocks.
void dot_rows(RowType type, const DotOperands& operands, std::int64_t rows, std::int64_t columns);

/// Numbers of consecutive rows as f32: `rows` of w, of `depth` numbers, to y.
void expand_rows(RowType type, const std::byte* w, std::int64_t rows, std::int64_t depth, float* y);

}  // namespace penstock::ops::cpu
