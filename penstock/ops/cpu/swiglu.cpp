// The gated linear unit SwiGLU in f32. Memory bounds its speed, so it takes one sweep and a
// polynomial exponential.
#include "penstock/ops/swiglu.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

PENSTOCK_PER_CPU void forward_rows(const float* x, float* y, std::int64_t f, std::int64_t begin,
                                   std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* gate = x + row * 2 * f;
    const float* up = gate + f;
    float* out = y + row * f;
#pragma omp simd
    for (std::int64_t i = 0; i < f; ++i) out[i] = gate[i] * fast_sigmoid(gate[i]) * up[i];
  }
}

PENSTOCK_PER_CPU void backward_rows(const float* grad, const float* x, float* dx, std::int64_t f,
                                    std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* gate = x + row * 2 * f;
    const float* up = gate + f;
    const float* g = grad + row * f;
    float* dgate = dx + row * 2 * f;
    float* dup = dgate + f;
#pragma omp simd
    for (std::int64_t i = 0; i < f; ++i) {
      const float s = fast_sigmoid(gate[i]);
      const float silu = gate[i] * s;
      dgate[i] = g[i] * up[i] * (s + silu * (1.0f - s));
      dup[i] = g[i] * silu;
    }
  }
}

}  // namespace

at::Tensor swiglu(const at::Tensor& x_in) {
  const auto x = x_in.contiguous();
  auto shape = x.sizes().vec();
  shape.back() /= 2;
  auto y = at::empty(shape, x.options());
  const std::int64_t f = shape.back(), rows = f ? y.numel() / f : 0;
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  parallel_ranges(rows, 1 + 4096 / (f + 1), [=](std::int64_t begin, std::int64_t end) {
    forward_rows(from, to, f, begin, end);
  });
  return y;
}

at::Tensor swiglu_backward(const at::Tensor& grad_in, const at::Tensor& x_in) {
  const auto grad = grad_in.contiguous(), x = x_in.contiguous();
  auto dx = at::empty_like(x);
  const std::int64_t f = x.size(-1) / 2, rows = f ? grad.numel() / f : 0;
  const float* g = grad.data_ptr<float>();
  const float* from = x.data_ptr<float>();
  float* to = dx.data_ptr<float>();
  parallel_ranges(rows, 1 + 4096 / (f + 1), [=](std::int64_t begin, std::int64_t end) {
    backward_rows(g, from, to, f, begin, end);
  });
  return dx;
}

}  // namespace penstock::ops::cpu
