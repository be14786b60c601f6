// The load of experts as text.
#pragma once

#include <string>
#include <vector>

namespace penstock::bench {

/// A line for each layer: assignments per token of the first 16 experts, and the lowest and highest
/// number among all experts.
std::string load_text(const std::vector<std::vector<double>>& load);

}  // namespace penstock::bench
