// What the registered balancers log each step, for who reads logs and knows no balancer.
#pragma once

#include <string>
#include <vector>

#include "penstock/routers/traits.h"

namespace penstock {

/// Of all balancers, in the order of their names.
std::vector<LoggedState> logged_states();

/// Whether a balancer that logs this state steers the sparsity with it.
bool steers_sparsity(const std::string& state);

/// A balancer whose loss is a regulariser times a weight that it moves, and logs the regulariser.
struct LoggedRegulariser {
  std::string part;   ///< by which the product goes
  std::string state;  ///< by which the regulariser by itself does
};
std::vector<LoggedRegulariser> logged_regularisers();

}  // namespace penstock
