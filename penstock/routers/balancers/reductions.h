// Sums that several balance losses use. If the selector computed them already, they are taken from
// the plan without a pass over [T, E]. Otherwise this file computes them.
#pragma once

#include "penstock/routers/routing.h"

namespace penstock {

/// The mean of softmax(z_r) over the rows r of each group [G, E], with z the scores' clean logits,
/// or their logits if there are none; 0 without rows. Differentiable.
/// @param groups  G; each group has the same number of consecutive rows
at::Tensor mean_probability(const Scores& scores, const Plan& plan, std::int64_t groups = 1);

/// log Σ_e exp(z_re) [R]. Differentiable.
at::Tensor row_logsumexp(const Scores& scores, const Plan& plan);

/// The sum of each expert's gates over the tokens of each group [G, E]. Differentiable.
/// REQUIRES: the plan does not merge.
at::Tensor gate_sums(const Plan& plan, std::int64_t groups = 1);

/// The sum of `values` [A] for each group of tokens and each expert [G, E]. Differentiable.
at::Tensor sum_by_group(const Plan& plan, std::int64_t groups, const at::Tensor& values);

}  // namespace penstock
