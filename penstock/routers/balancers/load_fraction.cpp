#include "penstock/routers/balancers/load_fraction.h"

#include <torch/types.h>
#include <torch/utils.h>

namespace penstock {

at::Tensor load_fraction(const Plan& plan, Scope scope, const RoutingContext& context) {
  torch::NoGradGuard no_grad;
  const bool refuses = plan.demand.defined();
  at::Tensor counts = (refuses ? plan.demand : expert_counts(plan)).to(at::kDouble);  // [E]
  at::Tensor tokens = at::full({1}, static_cast<double>(plan.tokens), at::kDouble);
  if (scope == Scope::global && context.reduce) {
    const at::Tensor sums = context.reduce(at::cat({counts, tokens})).cpu();
    counts = sums.slice(0, 0, plan.experts);
    tokens = sums.slice(0, plan.experts);
  }
  // What a selector counts as demand may be fewer than k choices a token.
  const at::Tensor choices = refuses ? counts.sum().clamp_min(1) : tokens.clamp_min(1) * plan.k;
  return counts * (at::full_like(choices, static_cast<double>(plan.experts)) / choices);
}

}  // namespace penstock
