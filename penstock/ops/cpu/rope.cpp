// Rotary position embedding in f32. x may be strided (a slice of a fused projection).
#include "penstock/ops/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

/// Cosines and sines of each angle, and which row of them each token reads.
struct Angles {
  std::vector<float> cos, sin;    ///< [rows, half]
  std::vector<std::int64_t> row;  ///< [positions]
};

/// One row per position from 0 to the largest where those are few, else one per token.
Angles tabulate(const at::Tensor& positions_in, std::int64_t half, double base, bool inverse) {
  const auto positions = positions_in.contiguous();
  const std::int64_t* p = positions.data_ptr<std::int64_t>();
  const std::int64_t n = positions.numel();
  std::vector<std::int64_t> values(p, p + n);  // position of each row of the table
  Angles angles{.row = std::vector<std::int64_t>(n)};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low >= 0 && *high < n) {
    angles.row = values;
    values.resize(*high + 1);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  } else {
    for (std::int64_t i = 0; i < n; ++i) angles.row[i] = i;
  }
  std::vector<double> frequency(half);
  for (std::int64_t i = 0; i < half; ++i)
    frequency[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));

  const std::int64_t rows = static_cast<std::int64_t>(values.size());
  angles.cos.resize(rows * half);
  angles.sin.resize(rows * half);
  const double sign = inverse ? -1 : 1;
  parallel_ranges(rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(values[r]) * frequency[i];
        angles.cos[r * half + i] = static_cast<float>(std::cos(angle));
        angles.sin[r * half + i] = static_cast<float>(sign * std::sin(angle));
      }
  });
  return angles;
}

/// One token: x [heads, hd] with a stride between heads, y [heads, hd] contiguous.
template <bool adjacent>
PENSTOCK_INLINE void rotate(const float* x, float* y, const float* cos, const float* sin,
                            std::int64_t heads, std::int64_t half, std::int64_t head_stride) {
  for (std::int64_t h = 0; h < heads; ++h) {
    const float* from = x + h * head_stride;
    float* to = y + h * 2 * half;
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t first = adjacent ? 2 * i : i, second = adjacent ? 2 * i + 1 : i + half;
      const float a = from[first], b = from[second];
      to[first] = a * cos[i] - b * sin[i];
      to[second] = b * cos[i] + a * sin[i];
    }
  }
}

PENSTOCK_PER_CPU void rotate_halves(const float* x, float* y, const float* cos, const float* sin,
                                    std::int64_t heads, std::int64_t half,
                                    std::int64_t head_stride) {
  rotate<false>(x, y, cos, sin, heads, half, head_stride);
}

PENSTOCK_PER_CPU void rotate_adjacent(const float* x, float* y, const float* cos, const float* sin,
                                      std::int64_t heads, std::int64_t half,
                                      std::int64_t head_stride) {
  rotate<true>(x, y, cos, sin, heads, half, head_stride);
}

}  // namespace

at::Tensor rope(const at::Tensor& x_in, const at::Tensor& positions, double base, bool adjacent,
                bool inverse) {
  const auto x = x_in.stride(3) == 1 || x_in.size(3) == 0 ? x_in : x_in.contiguous();
  auto y = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) return y;
  const std::int64_t batch = x.size(0), length = x.size(1), heads = x.size(2), hd = x.size(3);
  const Angles angles = tabulate(positions, hd / 2, base, inverse);
  const bool shared = positions.dim() == 1;
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  const auto strides = x.strides().vec();
  auto* const kernel = adjacent ? rotate_adjacent : rotate_halves;
  parallel_ranges(
      batch * length, 1 + 8192 / (heads * hd), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          const std::int64_t b = n / length, t = n % length;
          const std::int64_t row = angles.row[shared ? t : n] * (hd / 2);
          kernel(from + b * strides[0] + t * strides[1], to + n * heads * hd,
                 angles.cos.data() + row, angles.sin.data() + row, heads, hd / 2, strides[2]);
        }
      });
  return y;
}

}  // namespace penstock::ops::cpu
