#include "penstock/routers/balancers/load_fraction.h"

#include <torch/torch.h>

#include <algorithm>

namespace penstock {

at::Tensor load_fraction(const Plan& plan, const std::string& scope,
                         const RoutingContext& context) {
  torch::NoGradGuard no_grad;
  at::Tensor counts = expert_counts(plan).to(at::kDouble);  // [E]
  double tokens = static_cast<double>(plan.tokens);
  if (scope == "global" && context.reduce) {
    const at::Tensor sums =
        context.reduce(at::cat({counts, at::full({1}, tokens, counts.options())})).cpu();
    counts = sums.slice(0, 0, plan.experts);
    tokens = sums[plan.experts].item<double>();
  }
  return counts * (static_cast<double>(plan.experts) / (plan.k * std::max(1.0, tokens)));
}

}  // namespace penstock
