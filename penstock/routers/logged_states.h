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

/// A balancer whose loss is a regulariser times a weight that it moves, and logs the regulariser.
struct LoggedRegulariser {
  std::string part;   ///< the name that the product is logged under
  std::string state;  ///< the name of the regulariser alone
};
std::vector<LoggedRegulariser> logged_regularisers();

}  // namespace penstock
