#include "penstock/ops/cpu/activation_rows.h"

#include "penstock/ops/cpu/dropout_lanes.h"
#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

PENSTOCK_PER_CPU void swiglu_forward(const RowsShape& shape, const float* in, float* h) {
  const std::int64_t n = shape.lanes;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const float *g = in + 2 * r * n, *u = g + n;
    float* out = h + r * n;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) out[j] = g[j] * fast_sigmoid(g[j]) * u[j];
  }
}

PENSTOCK_PER_CPU void relu_forward(const RowsShape& shape, const float* in, float* h) {
  const std::int64_t n = shape.rows * shape.lanes;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) h[i] = in[i] < 0 ? 0 : in[i];  // a NaN stays
}

PENSTOCK_PER_CPU void swiglu_backward(const RowsShape& shape, const float* in, const float* p_in,
                                      const float* weight, float* d_in, float* h_out,
                                      float* d_weight) {
  const std::int64_t n = shape.lanes;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const float *g = in + 2 * r * n, *u = g + n, *p = p_in + r * n;
    float *dg = d_in + r * n, *du = dg + shape.rows * n, *h = h_out + r * n;
    const float w = weight[r];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < n; ++j) {
      const float s = fast_sigmoid(g[j]);
      const float silu = g[j] * s;
      const float out = silu * u[j];
      const float dh = w * p[j];
      sum += out * p[j];
      h[j] = w * out;
      du[j] = dh * silu;
      dg[j] = dh * u[j] * (s + silu * (1.0f - s));
    }
    d_weight[r] += sum;
  }
}

PENSTOCK_PER_CPU void relu_backward(const RowsShape& shape, const float* in, const float* p_in,
                                    const float* weight, float* d_in, float* h_out,
                                    float* d_weight) {
  const std::int64_t n = shape.lanes;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const float *x = in + r * n, *p = p_in + r * n;
    float *dx = d_in + r * n, *h = h_out + r * n;
    const float w = weight[r];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < n; ++j) {
      const float out = x[j] < 0 ? 0 : x[j];
      sum += out * p[j];
      h[j] = w * out;
      dx[j] = x[j] > 0 ? w * p[j] : 0;
    }
    d_weight[r] += sum;
  }
}

PENSTOCK_PER_CPU void drop_row(std::uint32_t key, std::int64_t first, std::int64_t lanes,
                               std::uint32_t threshold, float scale, float* x) {
#pragma omp simd
  for (std::int64_t j = 0; j < lanes; ++j) {
    const std::uint32_t column = static_cast<std::uint32_t>(first + j) * kDropoutColumn;
    x[j] *= dropout_stays(key, column, threshold) ? scale : 0.0f;
  }
}

}  // namespace

PENSTOCK_PER_CPU void add_bias_rows(const RowsShape& shape, std::int64_t i, std::int64_t m,
                                    std::int64_t columns, const float* bias, float* in) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    float* row = in + (r * m + i) * shape.lanes;
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) row[j] += bias[j];
  }
}

void activation_forward_rows(Activation activation, const RowsShape& shape, const float* in,
                             float* h) {
  if (activation == Activation::swiglu)
    swiglu_forward(shape, in, h);
  else
    relu_forward(shape, in, h);
}

void activation_backward_rows(Activation activation, const RowsShape& shape, const float* in,
                              const float* p, const float* weight, float* d_in, float* h,
                              float* d_weight) {
  const auto backward = activation == Activation::swiglu ? swiglu_backward : relu_backward;
  backward(shape, in, p, weight, d_in, h, d_weight);
}

void drop_rows(const Dropout& dropout, const RowsShape& shape, std::int64_t row,
               std::int64_t column, float* x) {
  for (std::int64_t r = 0; r < shape.rows; ++r)
    drop_row(dropout.row_key(row + r), column, shape.lanes, dropout.threshold(), dropout.scale(),
             x + r * shape.lanes);
}

}  // namespace penstock::ops::cpu
