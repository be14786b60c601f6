// Attention with a cache in plain ATen: one sequence after another, with the whole matrix of
// scores.
#include "penstock/ops/cached_attention.h"

#include <ATen/ATen.h>

#include <limits>

namespace penstock::ops::reference {
namespace {

/// Rotates the pairs of x [n, heads, hd] by the table's angles of positions `first` to `first` + n
/// − 1.
at::Tensor rotated(const CachedAttention& p, const at::Tensor& x, std::int64_t first) {
  if (!p.rotation.defined()) return x;
  const std::int64_t half = p.head_dim() / 2;
  const at::Tensor angles = p.rotation.narrow(0, first, x.size(0)).unsqueeze(1);  // [n, 1, hd]
  const at::Tensor cos = angles.narrow(-1, 0, half), sin = angles.narrow(-1, half, half);
  const at::Tensor pairs = p.rope_adjacent
                               ? x.reshape({x.size(0), x.size(1), half, 2})
                               : x.reshape({x.size(0), x.size(1), 2, half}).transpose(2, 3);
  const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  const at::Tensor out = at::stack({a * cos - b * sin, b * cos + a * sin}, -1);
  return (p.rope_adjacent ? out : out.transpose(2, 3)).reshape(x.sizes());
}

}  // namespace

at::Tensor cached_attention(const CachedAttention& p) {
  const std::int64_t n = p.fresh(), h = p.heads(), g = p.kv_heads(), hd = p.head_dim();
  at::Tensor y = at::zeros({p.count(), n, h * hd}, p.qkv.options());
  if (n == 0) return y;
  for (std::int64_t r = 0; r < p.count(); ++r) {
    const std::int64_t held = p.length(r), all = held + n;
    const at::Tensor heads = p.qkv[r].reshape({n, h + 2 * g, hd});
    const at::Tensor keys = p.keys[p.row(r)], values = p.values[p.row(r)];  // [C, G, hd]
    keys.narrow(0, held, n).copy_(rotated(p, heads.narrow(1, h, g), held));
    values.narrow(0, held, n).copy_(heads.narrow(1, h + g, g));
    const auto read = [&](const at::Tensor& cache) {  // [H, all, hd]
      return cache.narrow(0, 0, all).repeat_interleave(h / g, 1).transpose(0, 1);
    };
    const at::Tensor q = rotated(p, heads.narrow(1, 0, h), held).transpose(0, 1);  // [H, n, hd]
    const at::Tensor position = at::arange(all, p.rows.options().device(y.device()));
    const at::Tensor later = position.unsqueeze(0) > position.narrow(0, held, n).unsqueeze(1);
    const at::Tensor scores =
        (at::matmul(q, read(keys).transpose(1, 2)) * p.scale)
            .masked_fill(later, -std::numeric_limits<double>::infinity());  // [H, n, all]
    y[r].copy_(at::matmul(scores.softmax(-1), read(values)).transpose(0, 1).reshape({n, h * hd}));
  }
  return y;
}

}  // namespace penstock::ops::reference
