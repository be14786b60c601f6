// A linear router's gates as a formula, and their Jacobian in closed form.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "penstock/layers/moe.h"

namespace penstock::analysis {

/// A router without state: logits z = W x + b, and the form of its gates.
struct Gating {
  at::Tensor weight, bias;  ///< [E, d], [E] or undefined, f64
  GateForm form = GateForm::softmax_over_kept;
  std::int64_t k = 1;  ///< kept experts; unused by relu

  /// The experts chosen for x [d], ascending, [a] i64.
  at::Tensor active(const at::Tensor& x) const;
  /// ∂g_j/∂x of the active experts, [a, d]. Its rank is at most d, and:
  ///   over kept: g_j (w_j − Σ_{i kept} g_i w_i)    rank ≤ k − 1, since Σ_j g_j = 1
  ///   over all:  g_j (w_j − Σ_{i ≤ E} g_i w_i)     rank ≤ min(k, E − 1), as the mean row over all
  ///                                                E need not be in the k kept rows' span
  ///   relu:      w_j                               rank ≤ a
  /// Source: HyperRouter, arXiv:2312.07035, Eq. 3, 5 and 7. The paper's sums run from 1 to k, as in
  /// the first form.
  at::Tensor rows(const at::Tensor& x) const;
  /// The bound of the rank of rows() for a token with `active` active experts.
  std::int64_t rank_bound(std::int64_t active) const;
  /// The bound of the rank of all tokens' rows together: min(E − 1, d) for softmaxes, min(E, d) for
  /// relu.
  std::int64_t span_bound() const;
};

/// Why the router's gates are not a function of one token and a fixed matrix; "" if they are.
std::string declines_gating(const ResolvedRouter& router);

}  // namespace penstock::analysis
