#include "penstock/routers/logged_states.h"

#include <algorithm>

#include "penstock/routers/registry.h"

namespace penstock {

std::vector<LoggedState> logged_states() {
  std::vector<LoggedState> out;
  for (const auto& [name, balancer] : balancer_registry().entries())
    out.insert(out.end(), balancer.traits.state.begin(), balancer.traits.state.end());
  return out;
}

bool steers_sparsity(const std::string& state) {
  return std::ranges::any_of(balancer_registry().entries(), [&](const auto& entry) {
    const BalancerTraits& traits = entry.second.traits;
    return traits.steers_sparsity &&
           std::ranges::count(traits.state, state, &LoggedState::name) > 0;
  });
}

std::vector<LoggedRegulariser> logged_regularisers() {
  std::vector<LoggedRegulariser> out;
  for (const auto& [name, balancer] : balancer_registry().entries())
    for (const LoggedState& state : balancer.traits.state)
      if (state.unweighted_loss) out.push_back({.part = name, .state = state.name});
  return out;
}

}  // namespace penstock
