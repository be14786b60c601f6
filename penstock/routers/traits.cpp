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
  RouterTraits out{.causal = selector.causal,
                   .order_matters = scorer.order_matters || selector.order_matters,
                   .stochastic = scorer.stochastic || selector.stochastic,
                   .needs_token_ids = selector.needs_token_ids,
                   .trainable = scorer.trainable && selector.trainable,
                   .foldable = scorer.foldable,
                   .one_matrix = scorer.one_matrix,
                   .of_heads = scorer.of_heads,
                   .no_logits = scorer.no_logits,
                   .noisy = scorer.noisy,
                   .merges = selector.merges,
                   .has_k = selector.has_k,
                   .variable_active = selector.variable_active,
                   .even_loads = selector.even_loads,
                   .ignores_logits = selector.ignores_logits,
                   .takes_highest = selector.takes_highest,
                   .drops = selector.drops,
                   .unit_gates = selector.unit_gates,
                   .gates = selector.gates,
                   .forward_passes = selector.forward_passes,
                   .disagreement = selector.disagreement};
  for (const BalancerTraits& balancer : balancers) {
    out.steers_sparsity = out.steers_sparsity || balancer.steers_sparsity;
    out.biases_choice = out.biases_choice || balancer.biases_choice;
  }
  return out;
}

}  // namespace penstock
