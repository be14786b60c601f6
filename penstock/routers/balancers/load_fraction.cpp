#include "penstock/routers/balancers/load_fraction.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

namespace penstock {

at::Tensor load_fraction(const Plan& plan, Scope scope, const RoutingContext& context) {
  torch::NoGradGuard no_grad;
  const bool refuses = plan.demand.defined();
  at::Tensor counts = (refuses ? plan.demand : expert_counts(plan)).to(at::kDouble);  // [E]
  double tokens = static_cast<double>(plan.tokens);
  if (scope == Scope::global && context.reduce) {
    const at::Tensor sums =
        context.reduce(at::cat({counts, at::full({1}, tokens, counts.options())})).cpu();
    counts = sums.slice(0, 0, plan.experts);
    tokens = sums[plan.experts].item<double>();
  }
  // What a selector counts as demand may be fewer than k choices a token.
  const double choices =
      refuses ? std::max(1.0, counts.sum().item<double>()) : plan.k * std::max(1.0, tokens);
  return counts * (static_cast<double>(plan.experts) / choices);
}

}  // namespace penstock
