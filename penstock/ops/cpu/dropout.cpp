// Dropout in f32 on the CPU.
#include <ATen/ATen.h>

#include "penstock/ops/cpu/dropout_lanes.h"
#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu {
namespace {

PENSTOCK_PER_CPU void drop_row(const float* x, std::int64_t n, std::uint32_t key,
                               std::uint32_t threshold, float scale, float* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t column = static_cast<std::uint32_t>(i) * kDropoutColumn;
    y[i] = x[i] * (dropout_stays(key, column, threshold) ? scale : 0.0f);
  }
}

}  // namespace

at::Tensor dropout(const at::Tensor& x_in, double p, std::int64_t seed) {
  const at::Tensor x = x_in.contiguous();
  at::Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  const Dropout dropout{p, seed};
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  const std::uint32_t threshold = dropout.threshold();
  const float scale = dropout.scale();
  parallel_ranges(rows, 1 + 16384 / columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      drop_row(from + row * columns, columns, dropout.row_key(row), threshold, scale,
               to + row * columns);
  });
  return y;
}

}  // namespace penstock::ops::cpu
