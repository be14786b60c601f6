// Products of few rows with a row-major matrix, y = x · wᵀ: what generation consists of. Bound by
// the reading of w, which goes by once whatever the number of rows. An element's sum has the same
// order for any number of rows and any place among them, so that a row's result is its own.
// Used inside PENSTOCK_PER_CPU functions only.
#pragma once

#include <algorithm>

#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu {

/// Rows up to which the few-row paths of operators run.
inline constexpr std::int64_t kFewRows = 16;
/// Rows of w that are read side by side.
inline constexpr std::int64_t kDotColumns = 4;

/// Strides are from row to row.
struct DotOperands {
  const float* x;  ///< [rows, depth]
  std::int64_t x_stride;
  const float* w;  ///< [columns, depth]
  std::int64_t w_stride;
  std::int64_t depth;
  float* y;  ///< [rows, columns]
  std::int64_t y_stride;
};

/// y[r, j] = x_r · w_j for R rows and J columns.
template <int R, int J>
PENSTOCK_INLINE void dot_tile(const DotOperands& o) {
  Vec16 sums[R * J]{};
  std::int64_t i = 0;
  for (; i + kLanes <= o.depth; i += kLanes) {
    Vec16 w[J];
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) {
      w[j] = load(o.w + j * o.w_stride + i);
      // What comes next lies a few rows on, where the processor does not look by itself.
      __builtin_prefetch(o.w + (J + j) * o.w_stride + i);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec16 x = load(o.x + r * o.x_stride + i);
#pragma GCC unroll 8
      for (int j = 0; j < J; ++j) sums[r * J + j] += x * w[j];
    }
  }
  float totals[R * J];
#pragma GCC unroll 16
  for (int s = 0; s < R * J; ++s) totals[s] = sum(sums[s]);
  // Fused by name: left to itself, g++ 14 fuses these for some R and not for others, and a row's
  // result would depend on the rows beside it.
  for (; i < o.depth; ++i)
    for (int r = 0; r < R; ++r)
      for (int j = 0; j < J; ++j)
        totals[r * J + j] =
            __builtin_fmaf(o.x[r * o.x_stride + i], o.w[j * o.w_stride + i], totals[r * J + j]);
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) o.y[r * o.y_stride + j] = totals[r * J + j];
}

/// The same for any number of rows.
template <int J>
PENSTOCK_INLINE void dot_columns(DotOperands o, std::int64_t rows) {
  for (; rows >= 4; rows -= 4, o.x += 4 * o.x_stride, o.y += 4 * o.y_stride) dot_tile<4, J>(o);
  for (; rows >= 2; rows -= 2, o.x += 2 * o.x_stride, o.y += 2 * o.y_stride) dot_tile<2, J>(o);
  if (rows > 0) dot_tile<1, J>(o);
}

/// y[r, j] = x_r · w_j for any number of rows and columns.
PENSTOCK_INLINE void dot_rows(DotOperands o, std::int64_t rows, std::int64_t columns) {
  std::int64_t j = 0;
  const auto next = [&o](std::int64_t count) {
    o.w += count * o.w_stride;
    o.y += count;
  };
  for (; j + kDotColumns <= columns; j += kDotColumns, next(kDotColumns))
    dot_columns<kDotColumns>(o, rows);
  for (; j < columns; ++j, next(1)) dot_columns<1>(o, rows);
}

}  // namespace penstock::ops::cpu
