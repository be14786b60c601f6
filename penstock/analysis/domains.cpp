#include "penstock/analysis/domains.h"

#include <cmath>

namespace penstock::analysis {

std::vector<double> DomainRouting::share(std::size_t layer) const {
  std::vector<double> out = load.at(layer);
  for (double& value : out) value = active[layer] > 0 ? value / active[layer] : 0;
  return out;
}

std::vector<double> domain_divergence(const std::vector<DomainRouting>& domains) {
  std::vector<double> out;
  if (domains.empty()) return out;
  const auto count = static_cast<double>(domains.size());
  for (std::size_t l = 0; l < domains[0].load.size(); ++l) {
    std::vector<double> mean(domains[0].load[l].size());
    for (const DomainRouting& domain : domains) {
      const std::vector<double> share = domain.share(l);
      for (std::size_t e = 0; e < mean.size(); ++e) mean[e] += share[e] / count;
    }
    double sum = 0;
    for (const DomainRouting& domain : domains) {
      const std::vector<double> share = domain.share(l);
      for (std::size_t e = 0; e < mean.size(); ++e)
        if (share[e] > 0) sum += share[e] * std::log(share[e] / mean[e]);
    }
    out.push_back(sum / count);
  }
  return out;
}

}  // namespace penstock::analysis
