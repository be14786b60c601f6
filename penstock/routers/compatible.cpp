// Traits alone decide which parts fit together.
#include "penstock/routers/compatible.h"

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"

namespace penstock {

std::string compatible(const std::string& scorer, const std::string& selector,
                       const std::vector<std::string>& balancers) {
  const ScorerTraits& scores = scorer_registry().at(scorer).traits;
  const SelectorTraits& selects = selector_registry().at(selector).traits;
  if (scores.no_logits && !selects.ignores_logits)
    return concat("selector '", selector, "' selects by logits, and scorer '", scorer,
                  "' gives none");
  if (!scores.no_logits && selects.ignores_logits)
    return concat("selector '", selector, "' ignores logits, so scorer '", scorer,
                  "' would never be trained; use a scorer without logits");
  for (std::size_t i = 0; i < balancers.size(); ++i) {
    const std::string& balancer = balancers[i];
    const BalancerTraits& balances = balancer_registry().at(balancer).traits;
    if (balances.needs_logits && scores.no_logits)
      return concat("balancer '", balancer, "' acts on logits, and scorer '", scorer,
                    "' gives none");
    if (balances.steers_sparsity && !selects.variable_active)
      return concat("balancer '", balancer,
                    "' steers the number of active experts, which selector '", selector, "' fixes");
    if (balances.needs_noisy_choice && !scores.noisy)
      return concat("balancer '", balancer,
                    "' reads the chance that noise changes a choice, and scorer '", scorer,
                    "' adds no noise of a known scale");
    if (balances.needs_noisy_choice && !selects.takes_highest)
      return concat("balancer '", balancer,
                    "' compares a token's logits with its k-th highest, and", " selector '",
                    selector, "' does not choose by that");
    for (const auto& other : balancers)
      if (balances.needs_noisy_choice && balancer_registry().at(other).traits.biases_choice)
        return concat("balancer '", balancer, "' compares a token's logits with its k-th highest, ",
                      "and balancer '", other, "' biases the choice");
    if (balances.needs_assignments && selects.merges)
      return concat("balancer '", balancer, "' counts assignments, and selector '", selector,
                    "' blends experts instead");
    if (balances.evens_loads && selects.even_loads)
      return concat("balancer '", balancer, "' evens out loads, which selector '", selector,
                    "' keeps even already");
    if (balances.biases_choice && !selects.takes_bias)
      return concat("balancer '", balancer,
                    "' adds a bias to the choice of experts, and selector '", selector,
                    "' takes none");
    if (balances.keeps_thresholds && !selects.takes_thresholds)
      return concat("balancer '", balancer,
                    "' keeps thresholds by which experts take tokens, and selector '", selector,
                    "' takes none");
    for (std::size_t j = 0; j < i; ++j)
      if (balancers[j] == balancer) return concat("balancer '", balancer, "' is listed twice");
  }
  return {};
}

}  // namespace penstock
