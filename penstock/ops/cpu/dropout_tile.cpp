#include "penstock/ops/cpu/dropout_tile.h"

#include "penstock/ops/cpu/dropout_lanes.h"

namespace penstock::ops::cpu {
namespace {

PENSTOCK_PER_CPU void drop_columns(const TileShape& shape, const std::uint32_t* keys,
                                   std::int64_t first, std::uint32_t threshold, float scale,
                                   std::int64_t stride, float* x) {
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    const std::uint32_t column = static_cast<std::uint32_t>(first + j) * kDropoutColumn;
    float* row = x + j * stride;
#pragma omp simd
    for (std::int64_t r = 0; r < shape.rows; ++r)
      row[r] *= dropout_stays(keys[r], column, threshold) ? scale : 0.0f;
  }
}

}  // namespace

void TileDropout::apply(const TileShape& shape, std::int64_t row, std::int64_t count,
                        std::int64_t column, std::int64_t stride, float* x) const {
  std::uint32_t keys[64] = {};
  for (std::int64_t r = 0; r < count; ++r) keys[r] = dropout.row_key(row + r);
  drop_columns(shape, keys, column, dropout.threshold(), dropout.scale(), stride, x);
}

}  // namespace penstock::ops::cpu
