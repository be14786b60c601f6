#include "penstock/ops/cpu/activation_tile.h"

#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

PENSTOCK_PER_CPU void swiglu_forward(std::int64_t n, const float* g, const float* u, float* h) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) h[i] = g[i] * fast_sigmoid(g[i]) * u[i];
}

PENSTOCK_PER_CPU void relu_forward(std::int64_t n, const float* in, float* h) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) h[i] = in[i] < 0 ? 0 : in[i];  // a NaN stays
}

PENSTOCK_PER_CPU void swiglu_backward(const TileShape& shape, const float* in, const float* p,
                                      const float* weight, std::int64_t stride, float* d_in,
                                      float* h, float* d_weight) {
  const std::int64_t rows = shape.rows, tile = shape.columns * rows;
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    const float *g = in + j * rows, *u = g + tile, *pj = p + j * rows;
    float *dg = d_in + j * stride, *du = dg + shape.columns * stride, *hj = h + j * stride;
#pragma omp simd
    for (std::int64_t r = 0; r < rows; ++r) {
      const float s = fast_sigmoid(g[r]);
      const float silu = g[r] * s;
      const float out = silu * u[r];
      const float dh = weight[r] * pj[r];
      d_weight[r] += out * pj[r];
      hj[r] = weight[r] * out;
      du[r] = dh * silu;
      dg[r] = dh * u[r] * (s + silu * (1.0f - s));
    }
  }
}

PENSTOCK_PER_CPU void relu_backward(const TileShape& shape, const float* in, const float* p,
                                    const float* weight, std::int64_t stride, float* d_in, float* h,
                                    float* d_weight) {
  const std::int64_t rows = shape.rows;
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    const float *x = in + j * rows, *pj = p + j * rows;
    float *dx = d_in + j * stride, *hj = h + j * stride;
#pragma omp simd
    for (std::int64_t r = 0; r < rows; ++r) {
      const float out = x[r] < 0 ? 0 : x[r];
      d_weight[r] += out * pj[r];
      hj[r] = weight[r] * out;
      dx[r] = x[r] > 0 ? weight[r] * pj[r] : 0;
    }
  }
}

}  // namespace

PENSTOCK_PER_CPU void add_bias(const TileShape& shape, const float* bias, float* in) {
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    float* row = in + j * shape.rows;
#pragma omp simd
    for (std::int64_t r = 0; r < shape.rows; ++r) row[r] += bias[j];
  }
}

void activation_forward(Activation activation, const TileShape& shape, const float* in, float* h) {
  const std::int64_t n = shape.columns * shape.rows;
  if (activation == Activation::swiglu)
    swiglu_forward(n, in, in + n, h);
  else
    relu_forward(n, in, h);
}

void activation_backward(Activation activation, const TileShape& shape, const float* in,
                         const float* p, const float* weight, std::int64_t stride, float* d_in,
                         float* h, float* d_weight) {
  const auto backward = activation == Activation::swiglu ? swiglu_backward : relu_backward;
  backward(shape, in, p, weight, stride, d_in, h, d_weight);
}

PENSTOCK_PER_CPU void add_row_sums(const TileShape& shape, const float* x, std::int64_t stride,
                                   float* out) {
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    const float* row = x + j * stride;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t r = 0; r < shape.rows; ++r) sum += row[r];
    out[j] += sum;
  }
}

}  // namespace penstock::ops::cpu
