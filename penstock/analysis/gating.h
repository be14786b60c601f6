// A linear router's gates as a formula, and their Jacobian in closed form.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "penstock/layers/moe.h"

namespace penstock::analysis {

/// A router without state: logits z = W x + b, and a form.
struct Gating {
  at::Tensor weight, bias;  ///< [E, d], [E] or undefined, f64
  GateForm form = GateForm::softmax_over_kept;
  std::int64_t k = 1;  ///< kept experts; unused by relu

  /// Experts that x [d] is sent to, ascending, [a] i64.
  at::Tensor active(const at::Tensor& x) const;
  /// ∂g_j/∂x of the active experts, [a, d]:
  ///   over kept: g_j (w_j − Σ_{i kept} g_i w_i)    rank ≤ k − 1, since Σ_j g_j = 1
  ///   over all:  g_j (w_j − Σ_{i ≤ E} g_i w_i)     rank ≤ min(k, E − 1); the mean row over all E
  ///                                                experts takes it out of the k kept rows' span
  ///   relu:      w_j                               rank ≤ a
  /// and never above d. Source: HyperRouter, arXiv:2312.07035, Eq. 3, 5 and 7, whose ranges of sums
  /// (1 to k) are those of the first form.
  at::Tensor rows(const at::Tensor& x) const;
  /// The bound above for a token with that many active experts.
  std::int64_t rank_bound(std::int64_t active) const;
  /// The bound on what the rows of all tokens together span: min(E − 1, d) for softmaxes, min(E, d)
  /// for relu.
  std::int64_t span_bound() const;
};

/// "" or why gates of these parts are not a function of one token and a fixed matrix.
std::string declines_gating(const ResolvedRouter& router);

}  // namespace penstock::analysis
