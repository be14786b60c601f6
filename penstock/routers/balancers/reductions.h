// Sums that several balance losses are made of: the selector's own where it took them on its way,
// so that a loss costs no pass over [T, E]; else worked out here.
#pragma once

#include "penstock/routers/routing.h"

namespace penstock {

/// Mean over rows of softmax(z_r) [E], of the logits before noise; 0 without rows. Differentiable.
at::Tensor mean_probability(const Scores& scores, const Plan& plan);

/// log Σ_e exp(z_re) [R]. Differentiable.
at::Tensor row_logsumexp(const Scores& scores, const Plan& plan);

/// Σ of each expert's weights [E]. Differentiable.  REQUIRES: the plan does not merge.
at::Tensor gate_sums(const Plan& plan);

}  // namespace penstock
