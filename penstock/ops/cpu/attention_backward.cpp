// Causal attention backward in f32. The weights of a tile come back from the scores and the rows'
// logsumexp; with p = exp(s − lse), D_t = dy_t·y_t and ds = p (dy·v − D) · scale:
//   dv_s += p·dy,  dk_s += ds·q,  dq_t += ds·k
// All rows that read a key/value head are one thread's work, so nothing is added across threads.
#include <ATen/ATen.h>

#include <vector>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/attention_tiles.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu {
namespace {

using namespace attention;

PENSTOCK_PER_CPU float dot(const float* a, const float* b, std::int64_t n) {
  Vec16 total{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) total += load(a + i) * load(b + i);
  float out = sum(total);
  for (; i < n; ++i) out += a[i] * b[i];
  return out;
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
  auto dk_rows = at::empty({batch, length, kv_heads, hd}, q_rows.options());
  auto dv_rows = at::empty({batch, length, kv_heads, hd}, q_rows.options());
  if (dq_rows.numel() == 0) return {dq_rows, dk_rows.zero_(), dv_rows.zero_()};

  const auto start_rows = start_in.defined() ? start_in.contiguous() : at::Tensor();
  const std::int64_t* starts = start_in.defined() ? start_rows.data_ptr<std::int64_t>() : nullptr;
  const View q = view(q_rows), k = view(k_rows), v = view(v_rows), g = view(g_rows);
  const View y = view(y_rows), dq = view(dq_rows), dk = view(dk_rows), dv = view(dv_rows);
  const float* lse = logsumexp.data_ptr<float>();
  const float scale = static_cast<float>(scale_in);
  const std::int64_t padded = whole_tiles(length);

  // rows × keys from a block of rows and a packed transpose.
  const auto wide = [=](std::int64_t rows, std::int64_t width) {
    return xsmm::ProductShape{.rows = rows,
                              .columns = width,
                              .depth = hd,
                              .a_stride = hd,
                              .b_stride = kKeys,
                              .c_stride = kKeys};
  };
  // keys × hd from a tile, transposed, and a block of rows.
  const auto over_rows = [=](std::int64_t rows, std::int64_t width) {
    return xsmm::ProductShape{.rows = width,
                              .columns = hd,
                              .depth = rows,
                              .a_stride = kKeys,
                              .b_stride = hd,
                              .c_stride = hd,
                              .transpose_a = true,
                              .accumulate = true};
  };
  // rows × hd from a tile and its keys.
  const auto over_keys = [=](bool accumulate) {
    return [=](std::int64_t rows, std::int64_t width) {
      return xsmm::ProductShape{.rows = rows,
                                .columns = hd,
                                .depth = width,
                                .a_stride = kKeys,
                                .b_stride = hd,
                                .c_stride = hd,
                                .accumulate = accumulate};
    };
  };
  const TileProducts to_tile(length, wide), to_keys(length, over_rows);
  const TileProducts first_queries(length, over_keys(false)), queries(length, over_keys(true));
  const std::int64_t scratch_size =
      2 * hd * padded + 3 * length * hd + 3 * kRows * hd + 2 * kRows * kKeys;
  std::vector<float> scratch(scratch_size * omp_get_max_threads());

  parallel_ranges(batch * kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* keys_t = scratch.data() + omp_get_thread_num() * scratch_size;  // [tiles, hd, kKeys]
    float* values_t = keys_t + hd * padded;                                // [tiles, hd, kKeys]
    float* key_rows = values_t + hd * padded;                              // [T, hd]
    float* dkeys = key_rows + length * hd;                                 // [T, hd]
    float* dvalues = dkeys + length * hd;                                  // [T, hd]
    float* q_block = dvalues + length * hd;                                // [kRows, hd]
    float* g_block = q_block + kRows * hd;                                 // [kRows, hd]
    float* dq_block = g_block + kRows * hd;                                // [kRows, hd]
    float* weight = dq_block + kRows * hd;                                 // [kRows, kKeys]
    float* slope = weight + kRows * kKeys;                                 // [kRows, kKeys]
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / kv_heads, kv = task % kv_heads;
      const std::int64_t* start = starts ? starts + b * length : nullptr;
      pack_transposed(k.head(b, kv), k.row_stride, length, hd, scale, keys_t);
      pack_transposed(v.head(b, kv), v.row_stride, length, hd, 1.0f, values_t);
      pack_rows(k.head(b, kv), k.row_stride, length, hd, key_rows);
      std::fill_n(dkeys, 2 * length * hd, 0.0f);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
        for (std::int64_t first = 0; first < length; first += kRows) {
          const Block block = block_at(first, length, start);
          const std::int64_t rows = block.rows();
          pack_rows(q.head(b, h) + first * q.row_stride, q.row_stride, rows, hd, q_block);
          pack_rows(g.head(b, h) + first * g.row_stride, g.row_stride, rows, hd, g_block);
          const float* y_block = y.head(b, h) + first * y.row_stride;
          float inner[kRows];
          for (std::int64_t r = 0; r < rows; ++r)
            inner[r] = dot(g_block + r * hd, y_block + r * y.row_stride, hd);
          for (std::int64_t s = block.low; s < block.last; s += kKeys) {
            const std::int64_t width = std::min(kKeys, block.last - s);
            to_tile.at(rows, width)(q_block, keys_t + s * hd, weight);
            to_tile.at(rows, width)(g_block, values_t + s * hd, slope);
            for (std::int64_t r = 0; r < rows; ++r) {
              const std::int64_t t = first + r;
              tile_row(weight + r * kKeys, slope + r * kKeys,
                       static_cast<std::int32_t>((start ? start[t] : 0) - s),
                       static_cast<std::int32_t>(std::min(t + 1 - s, width)),
                       static_cast<std::int32_t>(whole_vectors(width)),
                       lse[(b * heads + h) * length + t], inner[r], scale);
            }
            to_keys.at(rows, width)(weight, g_block, dvalues + s * hd);
            to_keys.at(rows, width)(slope, q_block, dkeys + s * hd);
            (s == block.low ? first_queries : queries)
                .at(rows, width)(slope, key_rows + s * hd, dq_block);
          }
          unpack_rows(dq_block, rows, hd, dq.head(b, h) + first * dq.row_stride, dq.row_stride);
        }
      unpack_rows(dkeys, length, hd, dk.head(b, kv), dk.row_stride);
      unpack_rows(dvalues, length, hd, dv.head(b, kv), dv.row_stride);
    }
  });
  return {dq_rows, dk_rows, dv_rows};
}

}  // namespace penstock::ops::cpu
