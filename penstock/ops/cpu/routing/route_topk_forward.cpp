// Top-k routing in f32. The first pass reads the logits, and computes softmax, choice, counts and
// sums of a row while the row is in the cache. The second pass puts the chosen pairs of token and
// expert in expert order.
#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "penstock/ops/cpu/routing/route_blocks.h"
#include "penstock/ops/route.h"

namespace penstock::ops::cpu {
namespace {

/// The best logits so far, best first, with their experts.
struct Best {
  float* value;
  std::int32_t* expert;
  std::int64_t k;

  /// Whether logit a ranks before b. NaN ranks last. Equal logits keep the order of their experts,
  /// because experts are inserted in ascending order.
  static PENSTOCK_INLINE bool beats(float a, float b) { return a > b || (b != b && a == a); }
  /// Inserts x at `place` or before.  REQUIRES: fewer than k entries, or x beats the last entry.
  PENSTOCK_INLINE void insert(std::int64_t place, float x, std::int32_t e) const {
    for (; place > 0 && beats(x, value[place - 1]); --place) {
      value[place] = value[place - 1];
      expert[place] = expert[place - 1];
    }
    value[place] = x;
    expert[place] = e;
  }
};

/// The k best of any row, by insertion; the experts are in ascending order.
PENSTOCK_INLINE void insert_best(const float* z, std::int64_t experts, const Best& best) {
  for (std::int64_t e = 0; e < best.k; ++e) best.insert(e, z[e], static_cast<std::int32_t>(e));
  for (std::int64_t e = best.k; e < experts; ++e)
    if (Best::beats(z[e], best.value[best.k - 1]))
      best.insert(best.k - 1, z[e], static_cast<std::int32_t>(e));
  std::sort(best.expert, best.expert + best.k);
}

/// The k best of a row of whole vectors padded with −∞; the experts are in ascending order. Each
/// scan of the row finds the largest logit below the last one, without branches on the values. The
/// first scans find the k-th best logit; a last scan lists the logits that are not below it.
/// @return false, with `chosen` undefined, where equal logits make their number other than k.
PENSTOCK_INLINE bool list_best(const float* z, std::int64_t width, float most, std::int64_t k,
                               std::int32_t* chosen) {
  float last = most;
  for (std::int64_t i = 1; i < k; ++i) {
    Vec16 next = splat(-std::numeric_limits<float>::infinity());
    for (std::int64_t e = 0; e < width; e += kLanes) {
      const Vec16 x = load(z + e);
      next = larger(x < last ? x : next, next);
    }
    last = largest(next);
  }
  std::int64_t count = 0;
  for (std::int64_t e = 0; e < width; e += kLanes)
    for (std::uint32_t set = bits_of(load(z + e) >= last); set != 0; set &= set - 1) {
      if (count == k) return false;
      chosen[count++] = static_cast<std::int32_t>(e + std::countr_zero(set));
    }
  return count == k;
}

struct Rows {
  const float* logits;  // [T, E]
  std::int64_t tokens, experts, k;
  bool over_kept;
  std::int32_t* chosen;  // [T, k], ascending in each row
  float* weight;         // [T, k]
  float* logsumexp;      // [T]
};

/// Routes tokens [begin, end) of one block.  scratch: 2·width + k floats.
PENSTOCK_PER_CPU void route_rows(const Rows& rows, std::int64_t begin, std::int64_t end,
                                 float* scratch, std::int32_t* counts, float* sums) {
  const std::int64_t experts = rows.experts, k = rows.k, width = padded(experts);
  float* const buffer = scratch;
  float* const p = scratch + width;
  const float off = -std::numeric_limits<float>::infinity();
  for (std::int64_t t = begin; t < end; ++t) {
    const float* z =
        whole_vectors(rows.logits + t * experts, experts, (rows.tokens - t) * experts, off, buffer);
    Vec16 most_of = splat(off);
    for (std::int64_t e = 0; e < width; e += kLanes) most_of = larger(load(z + e), most_of);
    const float most = largest(most_of);
    Vec16 total_of{};
    for (std::int64_t e = 0; e < width; e += kLanes) {
      const Vec16 x = exp_or_zero(load(z + e) - most);
      store(p + e, x);
      total_of += x;
    }
    const float total = sum(total_of), inverse = 1 / total;
    for (std::int64_t e = 0; e < width; e += kLanes)
      store(sums + e, load(sums + e) + load(p + e) * inverse);
    rows.logsumexp[t] = most + std::log(total);

    std::int32_t* chosen = rows.chosen + t * k;
    const bool has_nan = total != total;
    // Where k is large, insertion reads the row fewer times.
    if (has_nan || k > 32 || !list_best(z, width, most, k, chosen))
      insert_best(z, experts, {scratch + 2 * width, chosen, k});
    float kept = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      kept += p[chosen[i]];
      ++counts[chosen[i]];
    }
    const float scale = rows.over_kept && !has_nan ? 1 / kept : inverse;
    for (std::int64_t i = 0; i < k; ++i) rows.weight[t * k + i] = p[chosen[i]] * scale;
  }
}

}  // namespace

Route route_topk(const at::Tensor& logits_in, std::int64_t k, bool over_kept) {
  const at::Tensor logits = logits_in.contiguous();
  const std::int64_t tokens = logits.size(0), experts = logits.size(1), count = tokens * k;
  RouteBlocks blocks(tokens, experts);
  Route route;
  route.logsumexp = at::empty({tokens}, logits.options());
  const auto chosen = std::make_unique_for_overwrite<std::int32_t[]>(count);
  const auto weights = std::make_unique_for_overwrite<float[]>(count);
  const Rows rows{.logits = logits.data_ptr<float>(),
                  .tokens = tokens,
                  .experts = experts,
                  .k = k,
                  .over_kept = over_kept,
                  .chosen = chosen.get(),
                  .weight = weights.get(),
                  .logsumexp = route.logsumexp.data_ptr<float>()};
  blocks.each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> scratch;
    scratch.resize(static_cast<std::size_t>(2 * blocks.width() + k));
    route_rows(rows, begin, end, scratch.data(), blocks.counts(block), blocks.sums(block));
  });
  route.mean_probability = blocks.total(1 / static_cast<double>(std::max<std::int64_t>(1, tokens)));

  route.offsets = blocks.offsets();
  route.expert = expert_of_assignments(route.offsets);
  const auto index = at::TensorOptions().dtype(at::kLong);
  route.token = at::empty({count}, index);
  route.by_token = at::empty({count}, index);
  route.token_offsets = at::empty({tokens + 1}, index);
  route.weight = at::empty({count}, logits.options());
  auto* token = route.token.data_ptr<std::int64_t>();
  auto* by_token = route.by_token.data_ptr<std::int64_t>();
  auto* token_offsets = route.token_offsets.data_ptr<std::int64_t>();
  auto* weight = route.weight.data_ptr<float>();
  token_offsets[tokens] = count;
  blocks.each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    std::int32_t* next = blocks.places(block);
    for (std::int64_t t = begin; t < end; ++t) {
      token_offsets[t] = t * k;
      for (std::int64_t i = t * k; i < (t + 1) * k; ++i) {
        const std::int64_t a = next[rows.chosen[i]]++;
        token[a] = t;
        weight[a] = rows.weight[i];
        by_token[i] = a;
      }
    }
  });
  return route;
}

}  // namespace penstock::ops::cpu
