// Which parts fit together.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// The reason why these parts cannot work together, or "" if they can.
std::string compatible(const std::string& scorer, const std::string& selector,
                       const std::vector<std::string>& balancers);

}  // namespace penstock
