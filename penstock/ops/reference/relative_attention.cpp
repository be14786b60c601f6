// Attention with relative positions in plain ATen, with the whole matrix [T, K] of scores.
#include "penstock/ops/relative_attention.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {
namespace {

/// [B, N, H·hd] -> [B, H, N, hd].
at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}
at::Tensor join(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

/// The operands by head, in the form that the products take, and the distance of each pair of
/// positions.
struct RelativeHeads {
  explicit RelativeHeads(const RelativeProblem& p) {
    const std::int64_t heads = p.heads(), width = heads * p.head_dim();
    const at::Tensor q = by_head(p.q, heads);
    content = rounded_to(p.precision, q + p.u.unsqueeze(1));
    position = rounded_to(p.precision, q + p.v.unsqueeze(1));
    keys = rounded_to(p.precision, by_head(p.kv.narrow(2, 0, width), heads));
    values = rounded_to(p.precision, by_head(p.kv.narrow(2, width, width), heads));
    positions = rounded_to(p.precision, p.r.view({p.keys(), heads, -1}).transpose(0, 1));
    const at::Tensor row = at::arange(p.length(), p.r.options().dtype(at::kLong)).unsqueeze(1);
    const at::Tensor column = at::arange(p.keys(), row.options()).unsqueeze(0);
    const at::Tensor apart = row + p.memory() - column;
    hidden = apart.lt(0);
    distance = apart.clamp_min(0).expand({p.batch(), heads, p.length(), p.keys()});
  }
  at::Tensor content, position;  // q + u and q + v [B, H, T, hd]
  at::Tensor keys, values;       // [B, H, K, hd]
  at::Tensor positions;          // [H, K, hd]
  at::Tensor distance;           // [B, H, T, K] i64, 0 where hidden
  at::Tensor hidden;             // [T, K]: columns that a row may not read

  at::Tensor scores(double scale) const {
    const at::Tensor by_distance = at::matmul(position, positions.transpose(1, 2));
    return ((at::matmul(content, keys.transpose(2, 3)) + by_distance.gather(3, distance)) * scale)
        .masked_fill(hidden, -INFINITY);
  }
};

}  // namespace

RelativeResult relative_attention(const RelativeProblem& problem) {
  const RelativeHeads heads(problem);
  const at::Tensor scores = heads.scores(problem.scale);
  return {join(at::matmul(rounded_to(problem.precision, scores.softmax(3)), heads.values)),
          scores.logsumexp(3)};
}

RelativeGradient relative_attention_backward(const at::Tensor& grad, const RelativeProblem& problem,
                                             const at::Tensor& y, const at::Tensor& logsumexp) {
  const RelativeHeads heads(problem);
  const at::Tensor p = (heads.scores(problem.scale) - logsumexp.unsqueeze(3)).exp();
  const at::Tensor dy = by_head(grad, problem.heads()), rows = rounded_to(problem.precision, dy);
  const at::Tensor dp = at::matmul(rows, heads.values.transpose(2, 3));
  const at::Tensor inner = (dy * by_head(y, problem.heads())).sum(3, true);  // Σ_j p_j dp_j
  const at::Tensor ds =
      rounded_to(problem.precision, p * (dp - inner) * problem.scale);  // [B, H, T, K]
  const at::Tensor by_distance = at::zeros_like(ds).scatter_add_(3, heads.distance, ds);
  const at::Tensor d_content = at::matmul(ds, heads.keys);
  const at::Tensor d_position = at::matmul(by_distance, heads.positions);
  const at::Tensor d_keys = at::matmul(ds.transpose(2, 3), heads.content);
  const at::Tensor d_values = at::matmul(rounded_to(problem.precision, p).transpose(2, 3), rows);
  const at::Tensor d_r =
      at::matmul(by_distance.transpose(2, 3), heads.position).sum(0);  // [H, K, hd]
  return {join(d_content + d_position), at::cat({join(d_keys), join(d_values)}, 2),
          d_r.transpose(0, 1).flatten(1), d_content.sum(at::IntArrayRef({0, 2})),
          d_position.sum(at::IntArrayRef({0, 2}))};
}

}  // namespace penstock::ops::reference
