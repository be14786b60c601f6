// Sums that several balance losses use. A selector may have computed them already; then a loss
// needs no pass over [T, E]. Otherwise this file computes them.
#pragma once

#include "penstock/routers/routing.h"

namespace penstock {

/// Mean over a group's rows of softmax(z_r) [G, E], of the logits before noise; 0 without rows.
/// Differentiable. @param groups  G, of as many consecutive rows each
at::Tensor mean_probability(const Scores& scores, const Plan& plan, std::int64_t groups = 1);

/// log Σ_e exp(z_re) [R]. Differentiable.
at::Tensor row_logsumexp(const Scores& scores, const Plan& plan);

/// Σ of each expert's weights over a group's tokens [G, E]. Differentiable.
/// REQUIRES: the plan does not merge.
at::Tensor gate_sums(const Plan& plan, std::int64_t groups = 1);

/// Σ of `values` [A] by the group of the token and the expert [G, E]. Differentiable.
at::Tensor sum_by_group(const Plan& plan, std::int64_t groups, const at::Tensor& values);

}  // namespace penstock
