#include "penstock/ops/cpu/gate_tile.h"

#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {

PENSTOCK_PER_CPU void gate_forward(std::int64_t rows, std::int64_t columns, const float* g,
                                   const float* u, std::int64_t gu_stride, float* h,
                                   std::int64_t h_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float *gr = g + r * gu_stride, *ur = u + r * gu_stride;
    float* hr = h + r * h_stride;
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) hr[j] = gr[j] * fast_sigmoid(gr[j]) * ur[j];
  }
}

PENSTOCK_PER_CPU void gate_backward(std::int64_t rows, std::int64_t columns, const float* g,
                                    const float* u, std::int64_t gu_stride, const float* p,
                                    const float* weight, float* d_g, float* d_u, float* h,
                                    float* d_weight) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float *gr = g + r * gu_stride, *ur = u + r * gu_stride, *pr = p + r * columns;
    float *dgr = d_g + r * columns, *dur = d_u + r * columns, *hr = h + r * columns;
    const float w = weight[r];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < columns; ++j) {
      const float s = fast_sigmoid(gr[j]);
      const float silu = gr[j] * s;
      const float out = silu * ur[j];
      const float dh = w * pr[j];
      sum += out * pr[j];
      hr[j] = w * out;
      dur[j] = dh * silu;
      dgr[j] = dh * ur[j] * (s + silu * (1.0f - s));
    }
    d_weight[r] += sum;
  }
}

}  // namespace penstock::ops::cpu
