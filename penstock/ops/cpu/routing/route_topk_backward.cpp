// The gradient of top-k routing in f32: one pass over the logits for all incoming gradients.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "penstock/ops/cpu/routing/route_blocks.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/ops/route.h"

namespace penstock::ops::cpu {
namespace {

struct Rows {
  const float* logits;           // [T, E]
  const float* logsumexp;        // [T]
  const float* weight;           // [A]
  const std::int64_t* expert;    // [A]
  const std::int64_t* by_token;  // [A], k for each token
  const float* dweight;          // [A], or null
  const float* dlogsumexp;       // [T], or null
  const float* dmean;            // [padded E] divided by T and zero beyond E, or null
  float* dlogits;                // [T, E]
  std::int64_t tokens, experts, k;
  bool over_kept;
};

/// dz = p ⊙ (dmean/T + dlogsumexp − Σ p dmean/T); the chosen experts add w ⊙ (dw − Σ w dw). Where
/// the weights are probabilities, −Σ w dw is multiplied by p instead of w.  buffer: 2·padded E
/// floats.
PENSTOCK_PER_CPU void gradient_rows(const Rows& rows, std::int64_t begin, std::int64_t end,
                                    float* buffer) {
  const std::int64_t experts = rows.experts, k = rows.k, width = padded(experts);
  const float* const end_of_range = rows.dlogits + end * experts;
  const float off = -std::numeric_limits<float>::infinity();
  float* const p = buffer + width;
  const bool chosen_only = rows.over_kept && !rows.dmean && !rows.dlogsumexp;
  for (std::int64_t t = begin; t < end; ++t) {
    float* out = rows.dlogits + t * experts;
    float inner = 0;  // Σ w dw
    for (std::int64_t i = t * k; rows.dweight && i < (t + 1) * k; ++i)
      inner += rows.weight[rows.by_token[i]] * rows.dweight[rows.by_token[i]];
    if (chosen_only) {
      for (std::int64_t e = 0; e < experts; ++e) out[e] = 0;
    } else {
      const float* z = whole_vectors(rows.logits + t * experts, experts,
                                     (rows.tokens - t) * experts, off, buffer);
      const float logsumexp = rows.logsumexp[t];
      float shift = (rows.dlogsumexp ? rows.dlogsumexp[t] : 0) - (rows.over_kept ? 0 : inner);
      for (std::int64_t e = 0; e < width; e += kLanes)
        store(p + e, exp_or_zero(load(z + e) - logsumexp));
      if (rows.dmean) {
        Vec16 spread{};
        for (std::int64_t e = 0; e < width; e += kLanes)
          spread += load(p + e) * load(rows.dmean + e);
        shift -= sum(spread);
      }
      for (std::int64_t e = 0; e < width; e += kLanes) {
        const Vec16 dz = load(p + e) * (rows.dmean ? load(rows.dmean + e) + shift : splat(shift));
        // The next row overwrites the values that this store writes beyond its row.
        if (out + e + kLanes <= end_of_range)
          store(out + e, dz);
        else
          for (std::int64_t i = e; i < experts; ++i) out[i] = dz[i - e];
      }
    }
    for (std::int64_t i = t * k; rows.dweight && i < (t + 1) * k; ++i) {
      const std::int64_t a = rows.by_token[i];
      out[rows.expert[a]] += rows.weight[a] * (rows.dweight[a] - (rows.over_kept ? inner : 0));
    }
  }
}

}  // namespace

at::Tensor route_topk_backward(const RouteGradients& grads, const at::Tensor& logits_in,
                               const Route& route, bool over_kept) {
  const at::Tensor logits = logits_in.contiguous();
  const at::Tensor dweight = contiguous_if_defined(grads.weight),
                   dlogsumexp = contiguous_if_defined(grads.logsumexp);
  const std::int64_t tokens = logits.size(0), experts = logits.size(1);
  std::vector<float> dmean;
  if (grads.mean_probability.defined()) {
    const at::Tensor mean =
        grads.mean_probability.div(static_cast<double>(std::max<std::int64_t>(1, tokens)))
            .contiguous();
    dmean.assign(mean.data_ptr<float>(), mean.data_ptr<float>() + experts);
    dmean.resize(static_cast<std::size_t>(padded(experts)));
  }
  at::Tensor out = at::empty(logits.sizes(), logits.options());
  const Rows rows{.logits = data_or_null(logits),
                  .logsumexp = data_or_null(route.logsumexp),
                  .weight = data_or_null(route.weight),
                  .expert = route.expert.data_ptr<std::int64_t>(),
                  .by_token = route.by_token.data_ptr<std::int64_t>(),
                  .dweight = data_or_null(dweight),
                  .dlogsumexp = data_or_null(dlogsumexp),
                  .dmean = dmean.empty() ? nullptr : dmean.data(),
                  .dlogits = out.data_ptr<float>(),
                  .tokens = tokens,
                  .experts = experts,
                  .k = tokens > 0 ? route.by_token.size(0) / tokens : 0,
                  .over_kept = over_kept};
  parallel_ranges(tokens, 1 + 16384 / experts, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> buffer(static_cast<std::size_t>(2 * padded(experts)));
    gradient_rows(rows, begin, end, buffer.data());
  });
  return out;
}

}  // namespace penstock::ops::cpu
