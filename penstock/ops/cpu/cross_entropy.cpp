// Cross-entropy in f32, one row at a time.
#include "penstock/ops/cross_entropy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu {
namespace {

/// Partial sums of this many terms are added in f64, so that long rows lose nothing.
constexpr std::int64_t kChunk = 4096;

PENSTOCK_PER_CPU float largest_of(const float* x, std::int64_t n) {
  Vec16 most = splat(-std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) most = larger(load(x + i), most);
  float out = largest(most);
  for (; i < n; ++i) out = x[i] > out ? x[i] : out;
  return out;
}

PENSTOCK_PER_CPU float exp_sum(const float* x, std::int64_t n, float shift) {
  Vec16 total{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) total += fast_exp(load(x + i) - shift);
  float out = sum(total);
  for (; i < n; ++i) out += fast_exp(x[i] - shift);
  return out;
}

/// out = grad · exp(x − shift).
PENSTOCK_PER_CPU void scaled_exp(const float* x, float* out, std::int64_t n, float shift,
                                 float grad) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = grad * fast_exp(x[i] - shift);
}

float log_sum_exp(const float* x, std::int64_t n) {
  const float most = largest_of(x, n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += kChunk) sum += exp_sum(x + i, std::min(kChunk, n - i), most);
  return most + static_cast<float>(std::log(sum));
}

}  // namespace

CrossEntropyResult cross_entropy(const at::Tensor& logits_in, const at::Tensor& targets_in) {
  const auto logits = logits_in.contiguous(), targets = targets_in.contiguous();
  const std::int64_t rows = logits.size(0), width = logits.size(1);
  auto loss = at::empty({rows}, logits.options()), logsumexp = at::empty({rows}, logits.options());
  const float* x = logits.data_ptr<float>();
  const std::int64_t* target = targets.data_ptr<std::int64_t>();
  float* out = loss.data_ptr<float>();
  float* lse = logsumexp.data_ptr<float>();
  parallel_ranges(rows, 1 + 4096 / (width + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      lse[row] = log_sum_exp(x + row * width, width);
      out[row] = lse[row] - x[row * width + target[row]];
    }
  });
  return {loss, logsumexp};
}

at::Tensor cross_entropy_backward(const at::Tensor& grad_in, const at::Tensor& logits_in,
                                  const at::Tensor& targets_in, const at::Tensor& logsumexp) {
  const auto grad = grad_in.contiguous(), logits = logits_in.contiguous();
  const auto targets = targets_in.contiguous();
  const std::int64_t rows = logits.size(0), width = logits.size(1);
  auto dlogits = at::empty_like(logits);
  const float* g = grad.data_ptr<float>();
  const float* x = logits.data_ptr<float>();
  const std::int64_t* target = targets.data_ptr<std::int64_t>();
  const float* lse = logsumexp.data_ptr<float>();
  float* out = dlogits.data_ptr<float>();
  parallel_ranges(rows, 1 + 4096 / (width + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      scaled_exp(x + row * width, out + row * width, width, lse[row], g[row]);
      out[row * width + target[row]] -= g[row];
    }
  });
  return dlogits;
}

}  // namespace penstock::ops::cpu
