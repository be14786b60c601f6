// Causal attention backward in f32. The weights of a tile come back from the scores and the rows'
// logsumexp; with p = exp(s − lse), D_t = dy_t·y_t and ds = p (dy·v − D) · scale:
//   dv_s += p·dy,  dk_s += ds·q,  dq_t += ds·k
// All rows that read a key/value head are one thread's work, so nothing is added across threads.
#include <ATen/ATen.h>

#include <vector>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/attention_tiles.h"
#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu {
namespace {

using namespace attention;

constexpr std::int64_t kTileStride = kKeys + 16;

PENSTOCK_PER_CPU float dot(const float* a, const float* b, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// One row of a tile: scores become weights, products dy·v become gradients of the unscaled scores;
/// both are 0 outside [begin, end).  REQUIRES: n is a multiple of 16.
PENSTOCK_PER_CPU void tile_row(float* scores, float* products, std::int32_t begin, std::int32_t end,
                               std::int32_t n, float logsumexp, float inner, float scale) {
#pragma omp simd
  for (std::int32_t i = 0; i < n; ++i) {
    const bool inside = (i >= begin) & (i < end);
    const float p = inside ? fast_exp(scores[i] - logsumexp) : 0.0f;
    const float ds = p * (products[i] - inner) * scale;
    scores[i] = p;
    products[i] = inside ? ds : 0.0f;
  }
}

}  // namespace

AttentionGradient causal_attention_backward(const at::Tensor& grad_in, const at::Tensor& q_in,
                                            const at::Tensor& k_in, const at::Tensor& v_in,
                                            const at::Tensor& y_in, const at::Tensor& logsumexp,
                                            double scale_in, const at::Tensor& start_in) {
  const auto q_rows = readable(q_in), k_rows = readable(k_in), v_rows = readable(v_in);
  const auto g_rows = readable(grad_in), y_rows = readable(y_in);
  const std::int64_t batch = q_rows.size(0), length = q_rows.size(1), heads = q_rows.size(2),
                     hd = q_rows.size(3), kv_heads = k_rows.size(2), group = heads / kv_heads;
  auto dq_rows = at::empty({batch, length, heads, hd}, q_rows.options());
  auto dk_rows = at::zeros({batch, length, kv_heads, hd}, q_rows.options());
  auto dv_rows = at::zeros({batch, length, kv_heads, hd}, q_rows.options());
  if (dq_rows.numel() == 0) return {dq_rows, dk_rows, dv_rows};

  const auto start_rows = start_in.defined() ? start_in.contiguous() : at::Tensor();
  const std::int64_t* starts = start_in.defined() ? start_rows.data_ptr<std::int64_t>() : nullptr;
  const View q = view(q_rows), k = view(k_rows), v = view(v_rows), g = view(g_rows);
  const View y = view(y_rows), dq = view(dq_rows), dk = view(dk_rows), dv = view(dv_rows);
  const float* lse = logsumexp.data_ptr<float>();
  const float scale = static_cast<float>(scale_in);
  const std::int64_t stride = padded(length);

  // rows × keys from a head's rows and a packed transpose.
  const auto wide = [&](const View& a) {
    return [=](std::int64_t rows, std::int64_t width) {
      return xsmm::ProductShape{.rows = rows, .columns = width, .depth = hd,
                                .a_stride = a.row_stride, .b_stride = stride,
                                .c_stride = kTileStride};
    };
  };
  // keys × hd from a tile, transposed, and a head's rows.
  const auto over_rows = [&](const View& b, const View& c) {
    return [=](std::int64_t rows, std::int64_t width) {
      return xsmm::ProductShape{.rows = width, .columns = hd, .depth = rows,
                                .a_stride = kTileStride, .b_stride = b.row_stride,
                                .c_stride = c.row_stride, .transpose_a = true, .accumulate = true};
    };
  };
  // rows × hd from a tile and a head's keys.
  const auto over_keys = [&](bool accumulate) {
    return [=](std::int64_t rows, std::int64_t width) {
      return xsmm::ProductShape{.rows = rows, .columns = hd, .depth = width,
                                .a_stride = kTileStride, .b_stride = k.row_stride,
                                .c_stride = dq.row_stride, .accumulate = accumulate};
    };
  };
  const TileProducts scores(length, wide(q)), products(length, wide(g));
  const TileProducts to_values(length, over_rows(g, dv)), to_keys(length, over_rows(q, dk));
  const TileProducts first_queries(length, over_keys(false)), queries(length, over_keys(true));
  const std::int64_t scratch_size = 2 * hd * stride + 2 * kRows * kTileStride;
  std::vector<float> scratch(scratch_size * omp_get_max_threads());

  parallel_ranges(batch * kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* keys = scratch.data() + omp_get_thread_num() * scratch_size;  // [hd, T], scaled
    float* values = keys + hd * stride;                                  // [hd, T]
    float* weight = values + hd * stride;                                // [kRows, kKeys]
    float* slope = weight + kRows * kTileStride;                         // [kRows, kKeys]
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / kv_heads, kv = task % kv_heads;
      const std::int64_t* start = starts ? starts + b * length : nullptr;
      pack_transposed(k.head(b, kv), k.row_stride, length, hd, scale, keys, stride);
      pack_transposed(v.head(b, kv), v.row_stride, length, hd, 1.0f, values, stride);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
        for (std::int64_t first = 0; first < length; first += kRows) {
          const Block block = block_at(first, length, start);
          const float* q_block = q.head(b, h) + first * q.row_stride;
          const float* g_block = g.head(b, h) + first * g.row_stride;
          const float* y_block = y.head(b, h) + first * y.row_stride;
          float inner[kRows];
          for (std::int64_t r = 0; r < block.rows(); ++r)
            inner[r] = dot(g_block + r * g.row_stride, y_block + r * y.row_stride, hd);
          for (std::int64_t s = block.low; s < block.last; s += kKeys) {
            const std::int64_t width = std::min(kKeys, block.last - s);
            scores.at(block.rows(), width)(q_block, keys + s, weight);
            products.at(block.rows(), width)(g_block, values + s, slope);
            for (std::int64_t r = 0; r < block.rows(); ++r) {
              const std::int64_t t = first + r;
              tile_row(weight + r * kTileStride, slope + r * kTileStride,
                       static_cast<std::int32_t>((start ? start[t] : 0) - s),
                       static_cast<std::int32_t>(std::min(t + 1 - s, width)),
                       static_cast<std::int32_t>(whole_vectors(width)),
                       lse[(b * heads + h) * length + t], inner[r], scale);
            }
            to_values.at(block.rows(), width)(weight, g_block, dv.head(b, kv) + s * dv.row_stride);
            to_keys.at(block.rows(), width)(slope, q_block, dk.head(b, kv) + s * dk.row_stride);
            (s == block.low ? first_queries : queries)
                .at(block.rows(), width)(slope, k.head(b, kv) + s * k.row_stride,
                                         dq.head(b, h) + first * dq.row_stride);
          }
        }
    }
  });
  return {dq_rows, dk_rows, dv_rows};
}

}  // namespace penstock::ops::cpu
