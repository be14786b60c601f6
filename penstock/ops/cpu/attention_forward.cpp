// Causal attention forward in f32: all scores of a block of rows, their softmax, then their product
// with the values. A block needs kRows × T floats, so nothing has to be rescaled on the way.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/attention_tiles.h"
#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu {
namespace {

using namespace attention;

/// Replaces scores [begin, end) by exp(score − largest) and the rest of [0, n) by 0.
/// REQUIRES: n is a multiple of 16, begin < end ≤ n.  @return largest and the sum.
PENSTOCK_PER_CPU std::pair<float, float> exponentials(float* row, std::int32_t begin,
                                                      std::int32_t end, std::int32_t n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float most = kNone;
#pragma omp simd reduction(max : most)
  for (std::int32_t i = 0; i < n; ++i) {
    const float x = (i >= begin) & (i < end) ? row[i] : kNone;
    most = x > most ? x : most;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int32_t i = 0; i < n; ++i) {
    const float e = fast_exp(row[i] - most);
    const float weight = (i >= begin) & (i < end) ? e : 0.0f;
    row[i] = weight;
    sum += weight;
  }
  return {most, sum};
}

PENSTOCK_PER_CPU void multiply(float* row, std::int64_t n, float factor) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) row[i] *= factor;
}

}  // namespace

AttentionResult causal_attention(const at::Tensor& q_in, const at::Tensor& k_in,
                                 const at::Tensor& v_in, double scale, const at::Tensor& start_in) {
  const auto q_rows = readable(q_in), k_rows = readable(k_in), v_rows = readable(v_in);
  const std::int64_t batch = q_rows.size(0), length = q_rows.size(1), heads = q_rows.size(2),
                     hd = q_rows.size(3), kv_heads = k_rows.size(2), group = heads / kv_heads;
  auto y_rows = at::empty({batch, length, heads, hd}, q_rows.options());
  auto logsumexp = at::zeros({batch, heads, length}, q_rows.options());
  if (y_rows.numel() == 0) return {y_rows, logsumexp};

  const auto start_rows = start_in.defined() ? start_in.contiguous() : at::Tensor();
  const std::int64_t* starts = start_in.defined() ? start_rows.data_ptr<std::int64_t>() : nullptr;
  const View q = view(q_rows), k = view(k_rows), v = view(v_rows), y = view(y_rows);
  float* lse = logsumexp.data_ptr<float>();
  const std::int64_t stride = padded(length);
  const TileProducts scores(length, [&](std::int64_t rows, std::int64_t width) {
    return xsmm::ProductShape{.rows = rows, .columns = width, .depth = hd, .a_stride = q.row_stride,
                              .b_stride = stride, .c_stride = stride};
  });
  const auto values_shape = [&](bool accumulate) {
    return [=](std::int64_t rows, std::int64_t width) {
      return xsmm::ProductShape{.rows = rows, .columns = hd, .depth = width, .a_stride = stride,
                                .b_stride = v.row_stride, .c_stride = y.row_stride,
                                .accumulate = accumulate};
    };
  };
  const TileProducts first_values(length, values_shape(false)), values(length, values_shape(true));
  const std::int64_t scratch_size = (hd + kRows) * stride;
  std::vector<float> scratch(scratch_size * omp_get_max_threads());

  parallel_ranges(batch * kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* keys = scratch.data() + omp_get_thread_num() * scratch_size;  // [hd, T], scaled
    float* weights = keys + hd * stride;                                 // [kRows, T]
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / kv_heads, kv = task % kv_heads;
      const std::int64_t* start = starts ? starts + b * length : nullptr;
      const float* v_head = v.head(b, kv);
      pack_transposed(k.head(b, kv), k.row_stride, length, hd, static_cast<float>(scale), keys,
                      stride);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
        for (std::int64_t first = 0; first < length; first += kRows) {
          const Block block = block_at(first, length, start);
          const float* q_block = q.head(b, h) + first * q.row_stride;
          float* y_block = y.head(b, h) + first * y.row_stride;
          for (std::int64_t s = block.low; s < block.last; s += kKeys)
            scores.at(block.rows(), std::min(kKeys, block.last - s))(q_block, keys + s,
                                                                     weights + s - block.low);
          float factor[kRows];
          for (std::int64_t r = 0; r < block.rows(); ++r) {
            const std::int64_t t = first + r;
            const auto [most, sum] = exponentials(
                weights + r * stride, static_cast<std::int32_t>((start ? start[t] : 0) - block.low),
                static_cast<std::int32_t>(t + 1 - block.low),
                static_cast<std::int32_t>(whole_vectors(block.last - block.low)));
            factor[r] = 1.0f / sum;
            lse[(b * heads + h) * length + t] = most + std::log(sum);
          }
          for (std::int64_t s = block.low; s < block.last; s += kKeys)
            (s == block.low ? first_values : values)
                .at(block.rows(), std::min(kKeys, block.last - s))(
                    weights + s - block.low, v_head + s * v.row_stride, y_block);
          for (std::int64_t r = 0; r < block.rows(); ++r)
            multiply(y_block + r * y.row_stride, hd, factor[r]);
        }
    }
  });
  return {y_rows, logsumexp};
}

}  // namespace penstock::ops::cpu
