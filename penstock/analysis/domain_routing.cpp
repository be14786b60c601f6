#include "penstock/analysis/domain_routing.h"

#include <numeric>

namespace penstock::analysis {

std::vector<DomainRouting> domain_routing(const Evaluation& evaluation) {
  std::vector<DomainRouting> out;
  for (const auto& [name, routing] : evaluation.routing_by_domain) {
    if (routing.tokens == 0 || routing.assignments.empty()) continue;
    DomainRouting& domain = out.emplace_back();
    domain.name = name;
    domain.tokens = routing.tokens;
    domain.loss = evaluation.by_domain.at(name).loss();
    domain.load = routing.assignments;
    for (auto& layer : domain.load) {
      for (double& value : layer) value /= static_cast<double>(routing.tokens);
      domain.active.push_back(std::accumulate(layer.begin(), layer.end(), 0.0));
    }
  }
  return out;
}

}  // namespace penstock::analysis
