// Causal attention in plain ATen, with the whole T×T matrix of scores.
#include "penstock/ops/causal_attention.h"

#include <ATen/ATen.h>

#include <limits>

namespace penstock::ops::reference {
namespace {

/// Rotates the pairs of x [B, T, heads, hd] by the table's angles; `inverse`: by their negatives.
at::Tensor rotate(const at::Tensor& x, const AttentionOptions& options, bool inverse) {
  if (!options.rotation.defined()) return x;
  const auto sizes = x.sizes().vec();
  const std::int64_t half = sizes[3] / 2;
  const auto cos = options.rotation.narrow(-1, 0, half).unsqueeze(1);  // [T, 1, hd/2]
  auto sin = options.rotation.narrow(-1, half, half).unsqueeze(1);
  if (inverse) sin = -sin;
  if (options.rope_adjacent) {
    const auto pairs = x.reshape({sizes[0], sizes[1], sizes[2], half, 2});
    const auto a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return at::stack({a * cos - b * sin, b * cos + a * sin}, -1).reshape(sizes);
  }
  const auto a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1);
}

/// q, k and v as [B, H, T, hd], in the form that the products take: q and k rotated, and each
/// key/value head repeated for the query heads of its group.
struct Heads {
  at::Tensor q, k, v;
};
Heads split(const at::Tensor& qkv, const AttentionOptions& options) {
  const std::int64_t h = options.heads, g = options.kv_heads;
  const auto heads = qkv.reshape({qkv.size(0), qkv.size(1), h + 2 * g, options.head_dim(qkv)});
  const auto rotated = rotate(heads.narrow(2, 0, h + g), options, false).transpose(1, 2);
  const auto spread = [&](const at::Tensor& x) {
    return rounded_to(options.precision, x).repeat_interleave(h / g, 1);
  };
  return {.q = rounded_to(options.precision, rotated.narrow(1, 0, h)),
          .k = spread(rotated.narrow(1, h, g)),
          .v = spread(heads.narrow(2, h + g, g).transpose(1, 2))};
}

/// exp(score − logsumexp) if row t may read position s, else 0. Computes the scores' `logsumexp` if
/// it is undefined.
at::Tensor weights_of(const Heads& heads, const AttentionOptions& options, at::Tensor& logsumexp) {
  const auto index =
      at::arange(heads.q.size(2), at::TensorOptions().dtype(at::kLong).device(heads.q.device()));
  auto forbidden = index.unsqueeze(0) > index.unsqueeze(1);  // [T, T], or [B, 1, T, T] with borders
  if (options.start.defined())
    forbidden =
        forbidden.logical_or(index.view({1, 1, 1, -1}) < options.start.unsqueeze(1).unsqueeze(-1));
  const auto scores = (at::matmul(heads.q, heads.k.transpose(-1, -2)) * options.scale)
                          .masked_fill(forbidden, -std::numeric_limits<double>::infinity());
  if (!logsumexp.defined()) logsumexp = at::logsumexp(scores, -1);  // [B, H, T]
  return (scores - logsumexp.unsqueeze(-1)).exp();
}

}  // namespace

AttentionResult causal_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  const std::int64_t batch = qkv.size(0), length = qkv.size(1);
  const std::int64_t width = options.heads * options.head_dim(qkv);
  if (qkv.numel() == 0)
    return {qkv.new_zeros({batch, length, width}), qkv.new_zeros({batch, options.heads, length})};
  const Heads heads = split(qkv, options);
  at::Tensor logsumexp;
  const auto weights = weights_of(heads, options, logsumexp);
  const auto y = at::matmul(rounded_to(options.precision, weights), heads.v);  // [B, H, T, hd]
  return {y.transpose(1, 2).reshape({batch, length, width}).contiguous(), logsumexp};
}

at::Tensor causal_attention_backward(const at::Tensor& grad, const at::Tensor& qkv,
                                     const at::Tensor& y, const at::Tensor& logsumexp,
                                     const AttentionOptions& options) {
  if (qkv.numel() == 0) return at::zeros_like(qkv);
  const std::int64_t batch = qkv.size(0), length = qkv.size(1), h = options.heads,
                     g = options.kv_heads, hd = options.head_dim(qkv);
  const Heads heads = split(qkv, options);
  auto known = logsumexp;
  const auto weights = weights_of(heads, options, known);  // [B, H, T, T]
  const auto dy = grad.reshape({batch, length, h, hd}).transpose(1, 2);
  const auto inner = (dy * y.reshape({batch, length, h, hd}).transpose(1, 2))
                         .sum(-1, /*keepdim=*/true);  // Σ_s w_ts dw_ts, [B, H, T, 1]
  const auto rows = rounded_to(options.precision, dy);
  const auto slopes = rounded_to(options.precision,
                                 weights * (at::matmul(rows, heads.v.transpose(-1, -2)) - inner));
  const auto summed = [&](const at::Tensor& x) {  // [B, H, T, hd] over each group: [B, G, T, hd]
    return x.reshape({batch, g, h / g, length, hd}).sum(2);
  };
  const auto dq = at::matmul(slopes, heads.k) * options.scale;
  const auto dk = summed(at::matmul(slopes.transpose(-1, -2), heads.q)) * options.scale;
  const auto dv =
      summed(at::matmul(rounded_to(options.precision, weights).transpose(-1, -2), rows));
  const auto rotated = rotate(at::cat({dq, dk}, 1).transpose(1, 2), options, true);
  return at::cat({rotated, dv.transpose(1, 2)}, 2).reshape(qkv.sizes());
}

}  // namespace penstock::ops::reference
