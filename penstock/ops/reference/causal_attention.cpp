// Causal attention in plain ATen, with the whole T×T matrix of scores.
#include "penstock/ops/causal_attention.h"

#include <ATen/ATen.h>

#include <limits>

namespace penstock::ops::reference {
namespace {

/// True where row t may not read position s: [T, T], or [B, 1, T, T] with borders.
at::Tensor forbidden(const at::Tensor& q, const at::Tensor& start) {
  const auto index = at::arange(q.size(1), at::TensorOptions().dtype(at::kLong).device(q.device()));
  auto mask = index.unsqueeze(0) > index.unsqueeze(1);  // [T, T]
  if (start.defined())
    mask = mask.logical_or(index.view({1, 1, 1, -1}) < start.unsqueeze(1).unsqueeze(-1));
  return mask;
}

/// [B, T, Hkv, hd] to [B, H, T, hd], each key/value head repeated for its group.
at::Tensor spread(const at::Tensor& x, std::int64_t heads) {
  return x.transpose(1, 2).repeat_interleave(heads / x.size(2), 1);
}

/// [B, H, T, hd] to [B, T, Hkv, hd], summed over each group.
at::Tensor gather(const at::Tensor& x, std::int64_t kv_heads) {
  return x.reshape({x.size(0), kv_heads, x.size(1) / kv_heads, x.size(2), x.size(3)})
      .sum(2)
      .transpose(1, 2)
      .contiguous();
}

at::Tensor masked_scores(const at::Tensor& q, const at::Tensor& k, double scale,
                         const at::Tensor& start) {
  const auto keys = spread(k, q.size(2));  // [B, H, T, hd]
  const auto scores =
      at::matmul(q.transpose(1, 2), keys.transpose(-1, -2)) * scale;  // [B, H, T, T]
  return scores.masked_fill(forbidden(q, start), -std::numeric_limits<double>::infinity());
}

}  // namespace

AttentionResult causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 double scale, const at::Tensor& start) {
  if (q.numel() == 0) return {at::zeros_like(q), q.new_zeros({q.size(0), q.size(2), q.size(1)})};
  const auto scores = masked_scores(q, k, scale, start);
  const auto logsumexp = at::logsumexp(scores, -1);  // [B, H, T]
  const auto weights = (scores - logsumexp.unsqueeze(-1)).exp();
  const auto y = at::matmul(weights, spread(v, q.size(2)));  // [B, H, T, hd]
  return {y.transpose(1, 2).contiguous(), logsumexp};
}

AttentionGradient causal_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                            const at::Tensor& k, const at::Tensor& v,
                                            const at::Tensor& y, const at::Tensor& logsumexp,
                                            double scale, const at::Tensor& start) {
  if (q.numel() == 0) return {at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
  const auto weights =
      (masked_scores(q, k, scale, start) - logsumexp.unsqueeze(-1)).exp();  // [B, H, T, T]
  const auto g = grad.transpose(1, 2);                                      // [B, H, T, hd]
  const auto dv = at::matmul(weights.transpose(-1, -2), g);
  const auto dweights = at::matmul(g, spread(v, q.size(2)).transpose(-1, -2));
  const auto inner =
      (grad * y).sum(-1).transpose(1, 2).unsqueeze(-1);  // Σ_s w_ts dw_ts, [B, H, T, 1]
  const auto dscores = weights * (dweights - inner) * scale;
  const auto dq = at::matmul(dscores, spread(k, q.size(2)));
  const auto dk = at::matmul(dscores.transpose(-1, -2), q.transpose(1, 2));
  return {dq.transpose(1, 2).contiguous(), gather(dk, k.size(2)), gather(dv, k.size(2))};
}

}  // namespace penstock::ops::reference
