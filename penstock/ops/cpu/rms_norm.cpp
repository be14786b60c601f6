// RMSNorm in f32, alone and after a residual addition. It finishes one row at a time, while the row
// is in the nearest cache.
#include "penstock/ops/rms_norm.h"

#include <ATen/ATen.h>

#include <cmath>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vec16.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock::ops::cpu {
namespace {

/// Blocks of rows for the gain's gradient. The rows of a block are summed in order, then the blocks
/// in order: the sum does not depend on which thread computed which block.
constexpr std::int64_t kBlocks = 64;

struct Rows {
  const float* x;
  const float* gain;
  const float* delta;     ///< forward: first, sum = x + delta; or null
  const float* grad;      ///< backward only
  const float* residual;  ///< backward only, or null
  float* r;               ///< [R], read by the backward pass
  float* sum;
  float* out;
  std::int64_t d;
};

PENSTOCK_PER_CPU void forward_rows(const Rows& rows, float eps, std::int64_t begin,
                                   std::int64_t end) {
  const std::int64_t d = rows.d;
  const float* gain = rows.gain;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = rows.x + row * d;
    float* y = rows.out + row * d;
    if (rows.delta) {
      const float* delta = rows.delta + row * d;
      float* h = rows.sum + row * d;
#pragma omp simd
      for (std::int64_t i = 0; i < d; ++i) h[i] = x[i] + delta[i];
      x = h;
    }
    Vec16 squares{};
    std::int64_t whole = 0;
    for (; whole + kLanes <= d; whole += kLanes) squares += load(x + whole) * load(x + whole);
    float total = sum(squares);
    for (std::int64_t i = whole; i < d; ++i) total += x[i] * x[i];
    const float r = 1.0f / std::sqrt(total / static_cast<float>(d) + eps);
    rows.r[row] = r;
#pragma omp simd
    for (std::int64_t i = 0; i < d; ++i) y[i] = x[i] * r * gain[i];
  }
}

/// Adds the rows' part of the gain's gradient to dgain [d].
PENSTOCK_PER_CPU void backward_rows(const Rows& rows, float* dgain, std::int64_t begin,
                                    std::int64_t end) {
  const std::int64_t d = rows.d;
  const float* gain = rows.gain;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = rows.x + row * d;
    const float* grad = rows.grad + row * d;
    float* dx = rows.out + row * d;
    const float r = rows.r[row];
    Vec16 products{};
    std::int64_t whole = 0;
    for (; whole + kLanes <= d; whole += kLanes)
      products += load(grad + whole) * load(gain + whole) * load(x + whole);
    float dot = sum(products);
    for (std::int64_t i = whole; i < d; ++i) dot += grad[i] * gain[i] * x[i];
    const float along = dot * r * r * r / static_cast<float>(d);
#pragma omp simd
    for (std::int64_t i = 0; i < d; ++i) {
      dx[i] = r * grad[i] * gain[i] - along * x[i];
      dgain[i] += grad[i] * x[i] * r;
    }
    if (rows.residual) {
      const float* residual = rows.residual + row * d;
#pragma omp simd
      for (std::int64_t i = 0; i < d; ++i) dx[i] += residual[i];
    }
  }
}

}  // namespace

AddRmsNormResult add_rms_norm(const at::Tensor& x_in, const at::Tensor& delta_in,
                              const at::Tensor& gain_in, double eps) {
  const auto x = x_in.contiguous(), gain = gain_in.contiguous();
  const auto delta = contiguous_if_defined(delta_in);
  const std::int64_t d = gain.size(0), count = d ? x.numel() / d : 0;
  auto h = delta.defined() ? at::empty_like(x) : x;
  auto y = at::empty_like(x);
  auto r = at::empty({count}, x.options());
  const Rows rows{.x = x.data_ptr<float>(),
                  .gain = gain.data_ptr<float>(),
                  .delta = data_or_null(delta),
                  .grad = nullptr,
                  .residual = nullptr,
                  .r = r.data_ptr<float>(),
                  .sum = h.data_ptr<float>(),
                  .out = y.data_ptr<float>(),
                  .d = d};
  parallel_ranges(count, 1 + 8192 / (d + 1), [&](std::int64_t begin, std::int64_t end) {
    forward_rows(rows, static_cast<float>(eps), begin, end);
  });
  return {h, y, r};
}

RmsNormResult rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  const auto [h, y, r] = add_rms_norm(x, at::Tensor(), gain, eps);
  return {y, r};
}

RmsNormGradient rms_norm_backward(const at::Tensor& grad_in, const at::Tensor& residual_in,
                                  const at::Tensor& x_in, const at::Tensor& gain_in,
                                  const at::Tensor& reciprocal_rms) {
  const auto grad = grad_in.contiguous(), x = x_in.contiguous(), gain = gain_in.contiguous();
  const auto residual = contiguous_if_defined(residual_in);
  const std::int64_t d = gain.size(0), count = reciprocal_rms.size(0);
  auto dx = at::empty_like(x);
  auto partial = at::zeros({kBlocks, d}, x.options());
  const Rows rows{.x = x.data_ptr<float>(),
                  .gain = gain.data_ptr<float>(),
                  .delta = nullptr,
                  .grad = grad.data_ptr<float>(),
                  .residual = data_or_null(residual),
                  .r = reciprocal_rms.data_ptr<float>(),
                  .sum = nullptr,
                  .out = dx.data_ptr<float>(),
                  .d = d};
  float* sums = partial.data_ptr<float>();
  const std::int64_t grain = 1 + 8192 * kBlocks / ((d + 1) * (count + 1));
  parallel_ranges(kBlocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      backward_rows(rows, sums + block * d, count * block / kBlocks, count * (block + 1) / kBlocks);
  });
  auto dgain = at::empty({d}, x.options());
  float* total = dgain.data_ptr<float>();
  for (std::int64_t i = 0; i < d; ++i) {
    double sum = 0;
    for (std::int64_t block = 0; block < kBlocks; ++block) sum += sums[block * d + i];
    total[i] = static_cast<float>(sum);
  }
  return {dx, dgain};
}

}  // namespace penstock::ops::cpu
