#include "penstock/bench/load_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::bench {

std::string load_text(const std::vector<std::vector<double>>& load) {
  constexpr std::size_t shown = 16;
  std::string out;
  for (std::size_t layer = 0; layer < load.size(); ++layer) {
    const std::vector<double>& experts = load[layer];
    out += fmt::format("  layer {:<3}", layer);
    for (std::size_t e = 0; e < std::min(shown, experts.size()); ++e)
      out += fmt::format(" {:.3f}", experts[e]);
    if (experts.size() > shown) out += " …";
    if (!experts.empty())
      out += fmt::format("  (lowest {:.3f}, highest {:.3f})", *std::ranges::min_element(experts),
                         *std::ranges::max_element(experts));
    out += "\n";
  }
  return out;
}

}  // namespace penstock::bench
