#include "penstock/ops/cpu/tile_product.h"

#include <algorithm>

#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

PENSTOCK_PER_CPU void plain_product(const xsmm::ProductShape& shape, const float* a, const float* b,
                                    float* c) {
  const std::int64_t row_step = shape.transpose_a ? 1 : shape.a_stride;
  const std::int64_t depth_step = shape.transpose_a ? shape.a_stride : 1;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    float* out = c + i * shape.c_stride;
    if (!shape.accumulate) std::fill_n(out, shape.columns, 0.0f);
    for (std::int64_t p = 0; p < shape.depth; ++p) {
      const float factor = a[i * row_step + p * depth_step];
      const float* from = b + p * shape.b_stride;
#pragma omp simd
      for (std::int64_t j = 0; j < shape.columns; ++j) out[j] += factor * from[j];
    }
  }
}

}  // namespace

TileProduct::TileProduct(const xsmm::ProductShape& shape) : shape_(shape) {
  if (xsmm::supported()) compiled_ = xsmm::compile(shape);
}

void TileProduct::loop(const float* a, const float* b, float* c) const {
  plain_product(shape_, a, b, c);
}

}  // namespace penstock::ops::cpu
