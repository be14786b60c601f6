// The load of experts for people.
#pragma once

#include <string>
#include <vector>

namespace penstock::bench {

/// A line for each layer: assignments per token of the first 16 experts, lowest and highest of all.
std::string load_text(const std::vector<std::vector<double>>& load);

}  // namespace penstock::bench
