#include "penstock/routers/balancers/load_fraction.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/routers/balancers/reductions.h"

namespace penstock {

void LoadScope::check(const std::string& part, std::int64_t experts) const {
  const std::string key = "model.router." + part + ".devices";
  PENSTOCK_CHECK(scope == Scope::device || devices == 0, key, " = ", devices,
                 " is for scope = \"device\"; leave it out");
  PENSTOCK_CHECK(scope != Scope::device || (devices > 0 && experts % devices == 0), key, " = ",
                 devices, " cannot divide ", experts,
                 " experts into groups of equal size; set it to the number of devices that are to "
                 "hold them (parallel.expert)");
}

std::int64_t LoadScope::groups(const Plan& plan, const RoutingContext& context) const {
  if (scope != Scope::sequence || plan.tokens == 0) return 1;
  PENSTOCK_CHECK(context.sequence_length > 0 && plan.tokens % context.sequence_length == 0,
                 "scope = \"sequence\": ", plan.tokens, " tokens are not whole sequences of ",
                 context.sequence_length);
  return plan.tokens / context.sequence_length;
}

at::Tensor requested_of_experts(const Plan& plan) {
  const at::Tensor& counts = plan.demand.defined() ? plan.demand : expert_counts(plan);
  return at::cat(
      {counts.to(at::kDouble), at::full({1}, static_cast<double>(plan.tokens), at::kDouble)});
}

at::Tensor load_fraction(const Plan& plan, const LoadScope& scope, const RoutingContext& context) {
  const torch::NoGradGuard no_grad;
  const std::int64_t groups = scope.groups(plan, context);
  if (groups > 1) {
    PENSTOCK_ASSERT(!plan.demand.defined(), "by sequence a plan's own assignments are counted");
    const double choices = static_cast<double>(plan.tokens / groups) * plan.k;
    at::Tensor counted = at::ones(plan.token.sizes(), plan.token.options().dtype(at::kDouble));
    if (plan.idle.defined())
      counted.masked_fill_(plan.idle.to(plan.expert.device()).index_select(0, plan.expert), 0);
    return sum_by_group(plan, groups, counted).mul_(static_cast<double>(plan.experts) / choices);
  }
  at::Tensor requested = requested_of_experts(plan);
  if (scope.scope == Scope::global && context.reduce)
    requested = context.reduce(context.layer, requested);
  const at::Tensor counts = requested.slice(0, 0, plan.experts),
                   tokens = requested.slice(0, plan.experts);
  // A selector's demand may be fewer than k choices a token.
  const at::Tensor choices =
      plan.demand.defined() ? counts.sum().clamp_min(1) : tokens.clamp_min(1) * plan.k;
  at::Tensor out = counts * (at::full_like(choices, static_cast<double>(plan.experts)) / choices);
  if (scope.scope == Scope::device) {
    const std::int64_t held = plan.experts / scope.devices;
    out = out.view({scope.devices, held}).mean(1, true).expand({scope.devices, held});
  }
  return out.reshape({1, plan.experts});
}

}  // namespace penstock
