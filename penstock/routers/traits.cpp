#include "penstock/routers/traits.h"

namespace penstock {

const char* gate_form_name(GateForm form) {
  switch (form) {
    case GateForm::softmax_over_kept:
      return "softmax-over-kept";
    case GateForm::softmax_over_all:
      return "softmax-over-all";
    case GateForm::relu:
      return "relu";
    default:
      return "other";
  }
}

RouterTraits combined(const ScorerTraits& scorer, const SelectorTraits& selector,
                      const std::vector<BalancerTraits>& balancers) {
  RouterTraits out{selector};
  out.order_matters |= scorer.order_matters;
  out.stochastic |= scorer.stochastic;
  out.trainable &= scorer.trainable;
  out.foldable = scorer.foldable;
  out.one_matrix = scorer.one_matrix;
  out.of_heads = scorer.of_heads;
  out.no_logits = scorer.no_logits;
  out.noisy = scorer.noisy;
  out.shared_by_layers = scorer.shared_by_layers;
  for (const BalancerTraits& balancer : balancers) {
    out.steers_sparsity |= balancer.steers_sparsity;
    out.biases_choice |= balancer.biases_choice;
    out.keeps_thresholds |= balancer.keeps_thresholds;
    out.needs_matrix |= balancer.needs_matrix;
    out.begins_at_k |= balancer.begins_at_k;
    out.pools_step |= balancer.pools_step;
  }
  out.causal |= out.keeps_thresholds;
  out.even_loads &= !out.keeps_thresholds;
  return out;
}

}  // namespace penstock
