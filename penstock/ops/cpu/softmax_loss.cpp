// Cross-entropy of rows of logits in f32. The gradient overwrites the logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vec16.h"
#include "penstock/ops/linear_cross_entropy.h"

namespace penstock::ops::cpu {
namespace {

/// Terms of a partial sum. The partial sums are added in f64, so that long rows lose no precision.
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

/// x ← exp(x − shift).  @return the sum of the new values.
PENSTOCK_PER_CPU float exp_in_place(float* x, std::int64_t n, float shift) {
  Vec16 total{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec16 e = fast_exp(load(x + i) - shift);
    store(x + i, e);
    total += e;
  }
  float out = sum(total);
  for (; i < n; ++i) out += x[i] = fast_exp(x[i] - shift);
  return out;
}

PENSTOCK_PER_CPU void multiply(float* x, std::int64_t n, float by) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) x[i] *= by;
}

}  // namespace

void softmax_loss(float* x, std::int64_t rows, std::int64_t width, const std::int64_t* target,
                  float scale, float* losses) {
  parallel_ranges(rows, 1 + 4096 / (width + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* row = x + r * width;
      const float aim = row[target[r]], most = largest_of(row, width);
      double total = 0;
      for (std::int64_t i = 0; i < width; i += kChunk) {
        const std::int64_t n = std::min(kChunk, width - i);
        total += scale == 0 ? exp_sum(row + i, n, most) : exp_in_place(row + i, n, most);
      }
      losses[r] = most + static_cast<float>(std::log(total)) - aim;
      if (scale == 0) continue;
      multiply(row, width, static_cast<float>(scale / total));
      row[target[r]] -= scale;
    }
  });
}

}  // namespace penstock::ops::cpu
