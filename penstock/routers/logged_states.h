// The states that registered balancers log each step, for readers of logs that know no balancer.
#pragma once

#include <string>
#include <vector>

#include "penstock/routers/traits.h"

namespace penstock {

/// The logged states of all balancers, in the order of their names.
std::vector<LoggedState> logged_states();

/// Whether a balancer that logs this state steers the sparsity with it.
bool steers_sparsity(const std::string& state);

/// A balancer that logs its regulariser. The balancer's loss is the regulariser times a weight that
/// the balancer moves.
struct LoggedRegulariser {
  std::string part;   ///< the balancer's name; the loss is logged under it
  std::string state;  ///< the name of the regulariser alone
};
std::vector<LoggedRegulariser> logged_regularisers();

}  // namespace penstock
