// Attention with a cache on the CPU in f32. Whole prompts go through causal attention's kernel.
// More than 16 further positions go through that kernel's blocks. Up to 16 positions go row by row,
// and read the cache in place.
#include "penstock/ops/cached_attention.h"

#include <ATen/ATen.h>

#include <vector>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/check.h"
#include "penstock/ops/cpu/attention/attention_blocks.h"
#include "penstock/ops/cpu/attention/attention_heads.h"
#include "penstock/ops/cpu/few_rows/dot_rows.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/ops/rows_alone.h"

namespace penstock::ops::cpu {
namespace {

constexpr std::int64_t kShortestPrompt = 16;

using attention::HeadRows;

struct CacheView {
  CacheView(const CachedAttention& p, const at::Tensor& rotation)
      : h(p.heads()),
        g(p.kv_heads()),
        hd(p.head_dim()),
        n(p.fresh()),
        capacity(p.capacity()),
        rotation_data(data_or_null(rotation)),
        adjacent(p.rope_adjacent) {}
  std::int64_t h, g, hd, n, capacity;
  const float* rotation_data;
  bool adjacent;

  std::int64_t width() const { return (h + 2 * g) * hd; }
  HeadRows rows(std::int64_t heads, bool rotated) const {
    return {.stride = width(),
            .heads = heads,
            .hd = hd,
            .rotation = rotated ? rotation_data : nullptr,
            .adjacent = adjacent};
  }
  /// The shape of n new positions after `held` cached positions of a sequence.
  attention::Shape shape(std::int64_t held) const { return {h, g, hd, held, held + n}; }
  /// Writes the new keys and values of one head to a sequence's cache, after `held` positions.
  void store_head(const float* qkv, float* keys, float* values, std::int64_t held,
                  std::int64_t kv) const {
    for (std::int64_t t = 0; t < n; ++t, qkv += width()) {
      const std::int64_t to = ((held + t) * g + kv) * hd;
      attention::pack_rows(rows(1, true), qkv + (h + kv) * hd, held + t, 1, 1.0f, keys + to);
      attention::pack_rows(rows(1, false), qkv + (h + g + kv) * hd, 0, 1, 1.0f, values + to);
    }
  }
  /// Writes keys and values of the new positions [begin, end), of `n`, to a sequence's cache, whose
  /// first new position is `held`.
  void store(const float* qkv, float* keys, float* values, std::int64_t held, std::int64_t begin,
             std::int64_t end) const {
    const float* from = qkv + begin * width() + h * hd;
    const std::int64_t to = (held + begin) * g * hd;
    attention::pack_rows(rows(g, true), from, held + begin, end - begin, 1.0f, keys + to);
    attention::pack_rows(rows(g, false), from + g * hd, 0, end - begin, 1.0f, values + to);
  }
};

/// Replaces `count` scores s by their softmax: e^(s − most), divided by the sum of these.
PENSTOCK_INLINE void softmax(float* scores, std::int64_t count) {
  float most = scores[0];
  std::int64_t i = 0;
  if (count >= kLanes) {
    Vec16 most_of = load(scores);
    for (i = kLanes; i + kLanes <= count; i += kLanes) most_of = larger(load(scores + i), most_of);
    most = largest(most_of);
  }
  for (; i < count; ++i) most = std::max(most, scores[i]);
  Vec16 total_of{};
  for (i = 0; i + kLanes <= count; i += kLanes) {
    const Vec16 weight = fast_exp(load(scores + i) - most);
    store(scores + i, weight);
    total_of += weight;
  }
  float total = sum(total_of);
  for (; i < count; ++i) total += scores[i] = fast_exp(scores[i] - most);
  const float inverse = 1 / total;
  for (i = 0; i < count; ++i) scores[i] *= inverse;
}

/// y [16·V] = Σ_s weight_s · values_s.
template <int V>
PENSTOCK_INLINE void weigh(const float* weights, std::int64_t count, const float* values,
                           std::int64_t stride, float* y) {
  Vec16 sums[V]{};
  for (std::int64_t s = 0; s < count; ++s) {
    const Vec16 weight = splat(weights[s]);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[v] += weight * load(values + s * stride + v * kLanes);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) store(y + v * kLanes, sums[v]);
}

/// Attention of one key/value head and its group of queries q [group, hd] over `count` positions. q
/// is already rotated and scaled.  scores: scratch [group, count].
PENSTOCK_PER_CPU void attend_group(const CacheView& view, const float* q, const float* keys,
                                   const float* values, std::int64_t count, float* scores,
                                   float* y) {
  const std::int64_t group = view.h / view.g, hd = view.hd, stride = view.g * hd;
  dot_rows_of<ReadF32>({.x = q,
                        .x_stride = hd,
                        .w = keys,
                        .w_stride = stride * static_cast<std::int64_t>(sizeof(float)),
                        .depth = hd,
                        .y = scores,
                        .y_stride = count},
                       group, count);
  for (std::int64_t j = 0; j < group; ++j) {
    float* weights = scores + j * count;
    softmax(weights, count);
    float* to = y + j * hd;
    std::int64_t i = 0;
    for (; i + 4 * kLanes <= hd; i += 4 * kLanes)
      weigh<4>(weights, count, values + i, stride, to + i);
    for (; i + kLanes <= hd; i += kLanes) weigh<1>(weights, count, values + i, stride, to + i);
    for (; i < hd; ++i) {
      float sum = 0;
      for (std::int64_t s = 0; s < count; ++s) sum += weights[s] * values[s * stride + i];
      to[i] = sum;
    }
  }
}

/// Attention of one key/value head and its group of queries, for the new positions of a sequence
/// after `held` cached positions.
/// qkv, y: at the first new position;  keys, values: the sequence's cache, written and read.
void attend_further(const CacheView& view, std::int64_t kv, std::int64_t held, float scale,
                    const float* qkv, float* keys, float* values, attention::Scratch::Cursor memory,
                    float* y) {
  using namespace attention;
  const Shape shape = view.shape(held);
  const std::int64_t group = shape.group, hd = shape.hd, n = view.n;
  ForwardProducts::Work work(shape, memory);
  const ForwardProducts products(shape);
  view.store_head(qkv, keys, values, held, kv);
  const HeadRows cached{.stride = view.g * hd, .heads = 1, .hd = hd};
  const auto pack = [&](const float* from, float factor, float* to) {
    pack_rows(cached, from + kv * hd, 0, shape.length, factor, to);
    std::fill(to + shape.length * hd, to + shape.padded_length() * hd, 0.0f);
  };
  pack(keys, scale * kLog2E, work.keys);
  pack(values, 1.0f, work.values);
  const HeadRows out{.stride = view.h * hd, .heads = group, .hd = hd};
  for (std::int64_t t = 0; t < n; t += shape.positions) {
    const Block block(shape, held + t, nullptr);
    work.limits.set(block, nullptr);
    pack_rows(view.rows(group, true), qkv + t * view.width() + kv * group * hd, held + t,
              block.positions(), 1.0f, work.rows);
    std::fill(work.rows + block.positions() * group * hd, work.rows + block.rows * hd, 0.0f);
    products.take_queries(block, work);
    attend(shape, products, block, work);
    unpack_rows(out, work.rows, held + t, block.positions(), 1.0f,
                y + (t * view.h + kv * group) * hd, work.total);
  }
}

std::string declines_cache(const CachedAttention& p) {
  return declines({p.qkv, p.keys, p.values, p.rotation});
}

}  // namespace

std::string declines_prompt_attention(const CachedAttention& p) {
  if (const std::string reason = declines_cache(p); !reason.empty()) return reason;
  if (p.fresh() < kShortestPrompt) return "fewer than 16 positions";
  if (rows_alone()) return "each position by itself";
  for (std::int64_t r = 0; r < p.count(); ++r)
    if (p.length(r) > 0) return "a sequence goes on";
  return {};
}

at::Tensor prompt_attention(const CachedAttention& p) {
  const at::Tensor qkv = p.qkv.contiguous();
  const at::Tensor rotation = contiguous_if_defined(p.rotation);
  const CacheView view(p, rotation);
  const float* from = qkv.data_ptr<float>();
  for (std::int64_t r = 0; r < p.count(); ++r) {
    const std::int64_t cache = p.row(r) * view.capacity * view.g * view.hd;
    float* const keys = p.keys.data_ptr<float>() + cache;
    float* const values = p.values.data_ptr<float>() + cache;
    parallel_ranges(view.n, 64, [&](std::int64_t begin, std::int64_t end) {
      view.store(from + r * view.n * view.width(), keys, values, 0, begin, end);
    });
  }
  const AttentionOptions options{
      .heads = view.h,
      .kv_heads = view.g,
      .scale = p.scale,
      .rotation = rotation.defined() ? rotation.narrow(0, 0, view.n) : rotation,
      .rope_adjacent = p.rope_adjacent};
  return std::get<0>(causal_attention(qkv, options));
}

std::string declines_block_attention(const CachedAttention& p) {
  if (const std::string reason = declines_cache(p); !reason.empty()) return reason;
  if (rows_alone()) return "each position by itself";
  return p.fresh() <= kFewRows ? "at most 16 positions" : "";
}

at::Tensor block_attention(const CachedAttention& p) {
  const at::Tensor qkv = p.qkv.contiguous();
  const at::Tensor rotation = contiguous_if_defined(p.rotation);
  const CacheView view(p, rotation);
  at::Tensor y = at::empty({p.count(), view.n, view.h * view.hd}, qkv.options());
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < p.count(); ++r) longest = std::max(longest, p.length(r));
  const attention::Scratch scratch(attention::ForwardProducts::Work::size(view.shape(longest)));
  parallel_ranges(p.count() * view.g, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t r = task / view.g, from = r * view.n;
      const std::int64_t row = p.row(r) * view.capacity * view.g * view.hd;
      attend_further(view, task % view.g, p.length(r), static_cast<float>(p.scale),
                     qkv.data_ptr<float>() + from * view.width(), p.keys.data_ptr<float>() + row,
                     p.values.data_ptr<float>() + row, scratch.mine(),
                     y.data_ptr<float>() + from * view.h * view.hd);
    }
  });
  return y;
}

std::string declines_step_attention(const CachedAttention& p) { return declines_cache(p); }

at::Tensor step_attention(const CachedAttention& p) {
  const at::Tensor qkv = p.qkv.contiguous();
  const at::Tensor rotation = contiguous_if_defined(p.rotation);
  const CacheView view(p, rotation);
  const std::int64_t group = view.h / view.g, hd = view.hd, cache = view.capacity * view.g * hd;
  at::Tensor y = at::empty({p.count(), view.n, view.h * hd}, qkv.options());
  const float* from = qkv.data_ptr<float>();
  float* const keys = p.keys.data_ptr<float>();
  float* const values = p.values.data_ptr<float>();
  float* const out = y.data_ptr<float>();
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < p.count(); ++r) {
    view.store(from + r * view.n * view.width(), keys + p.row(r) * cache, values + p.row(r) * cache,
               p.length(r), 0, view.n);
    longest = std::max(longest, p.length(r) + view.n);
  }
  const std::int64_t grain = 1 + 32768 / (1 + 2 * view.n * group * longest * hd);
  parallel_ranges(p.count() * view.g, grain, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> scratch;
    scratch.resize(static_cast<std::size_t>(group * (hd + longest)));
    float* const q = scratch.data();
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t r = task / view.g, kv = task % view.g, held = p.length(r);
      const std::int64_t head = p.row(r) * cache + kv * hd;
      for (std::int64_t t = 0; t < view.n; ++t) {
        const std::int64_t position = r * view.n + t;
        attention::pack_rows(view.rows(group, true),
                             from + position * view.width() + kv * group * hd, held + t, 1,
                             static_cast<float>(p.scale), q);
        attend_group(view, q, keys + head, values + head, held + t + 1, q + group * hd,
                     out + (position * view.h + kv * group) * hd);
      }
    }
  });
  return y;
}

}  // namespace penstock::ops::cpu
