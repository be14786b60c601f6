// Causal attention forward in f32: all scores of a block of rows, their softmax, then their product
// with the values. A block needs kRows × T floats, so nothing has to be rescaled on the way.
#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/attention_tiles.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu {
namespace {

using namespace attention;

/// Where position i of a row lies in a block of scores [tiles, kRows, kKeys].
PENSTOCK_INLINE float* at(float* row, std::int64_t i) {
  const auto position = static_cast<std::uint64_t>(i);
  return row + position / kKeys * (kRows * kKeys) + position % kKeys;
}

/// Replaces a row's scores [begin, end) by exp(score − largest) and the rest of [0, n) by 0.
/// REQUIRES: n is a multiple of 16, 0 ≤ begin < end ≤ n.  @return largest and the sum.
PENSTOCK_PER_CPU std::pair<float, float> exponentials(float* row, std::int64_t begin,
                                                      std::int64_t end, std::int64_t n) {
  // Only the first and the last vector can have lanes outside; they are put right before and after,
  // so that the loops need no masks. e^−87 of an outside lane is lost in a sum that is at least 1.
  const std::int64_t first = begin / kLanes * kLanes, last = whole_vectors(end);
  float* const low = at(row, first);
  float* const high = at(row, last - kLanes);
  const Int16 low_mask = lanes_between(first, begin, end);
  const Int16 high_mask = lanes_between(last - kLanes, begin, end);
  store(low, choose(low_mask, load(low), splat(-1e30f)));
  store(high, choose(high_mask, load(high), splat(-1e30f)));
  Vec16 most = load(low);
  for (std::int64_t i = first + kLanes; i < last; i += kLanes)
    most = larger(most, load(at(row, i)));
  const float shift = largest(most);
  Vec16 total{};
  for (std::int64_t i = first; i < last; i += kLanes) {
    const Vec16 e = fast_exp(load(at(row, i)) - shift);
    store(at(row, i), e);
    total += e;
  }
  store(low, choose(low_mask, load(low), Vec16{}));
  store(high, choose(high_mask, load(high), Vec16{}));
  for (std::int64_t i = 0; i < first; i += kLanes) store(at(row, i), Vec16{});
  for (std::int64_t i = last; i < n; i += kLanes) store(at(row, i), Vec16{});
  return {shift, sum(total)};
}

PENSTOCK_PER_CPU void multiply(const float* from, float* to, std::int64_t n, float factor) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * factor;
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
  const std::int64_t padded = whole_tiles(length);
  const TileProducts scores(length, [&](std::int64_t rows, std::int64_t width) {
    return xsmm::ProductShape{.rows = rows,
                              .columns = width,
                              .depth = hd,
                              .a_stride = hd,
                              .b_stride = kKeys,
                              .c_stride = kKeys};
  });
  const auto values_shape = [&](bool accumulate) {
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
  const TileProducts first_values(length, values_shape(false)), values(length, values_shape(true));
  const std::int64_t scratch_size = (hd + kRows) * padded + (length + 2 * kRows) * hd;
  std::vector<float> scratch(scratch_size * omp_get_max_threads());

  parallel_ranges(batch * kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    float* keys = scratch.data() + omp_get_thread_num() * scratch_size;  // [tiles, hd, kKeys]
    float* weights = keys + hd * padded;                                 // [tiles, kRows, kKeys]
    float* value_rows = weights + kRows * padded;                        // [T, hd]
    float* q_block = value_rows + length * hd;                           // [kRows, hd]
    float* sums = q_block + kRows * hd;                                  // [kRows, hd]
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / kv_heads, kv = task % kv_heads;
      const std::int64_t* start = starts ? starts + b * length : nullptr;
      pack_transposed(k.head(b, kv), k.row_stride, length, hd, static_cast<float>(scale), keys);
      pack_rows(v.head(b, kv), v.row_stride, length, hd, value_rows);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
        for (std::int64_t first = 0; first < length; first += kRows) {
          const Block block = block_at(first, length, start);
          pack_rows(q.head(b, h) + first * q.row_stride, q.row_stride, block.rows(), hd, q_block);
          float* y_block = y.head(b, h) + first * y.row_stride;
          for (std::int64_t s = block.low; s < block.last; s += kKeys)
            scores.at(block.rows(), std::min(kKeys, block.last - s))(
                q_block, keys + s * hd, weights + (s - block.low) * kRows);
          float factor[kRows];
          for (std::int64_t r = 0; r < block.rows(); ++r) {
            const std::int64_t t = first + r;
            const auto [most, sum] =
                exponentials(weights + r * kKeys, (start ? start[t] : 0) - block.low,
                             t + 1 - block.low, whole_vectors(block.last - block.low));
            factor[r] = 1.0f / sum;
            lse[(b * heads + h) * length + t] = most + std::log(sum);
          }
          for (std::int64_t s = block.low; s < block.last; s += kKeys)
            (s == block.low ? first_values : values)
                .at(block.rows(), std::min(kKeys, block.last - s))(
                    weights + (s - block.low) * kRows, value_rows + s * hd, sums);
          for (std::int64_t r = 0; r < block.rows(); ++r)
            multiply(sums + r * hd, y_block + r * y.row_stride, hd, factor[r]);
        }
    }
  });
  return {y_rows, logsumexp};
}

}  // namespace penstock::ops::cpu
