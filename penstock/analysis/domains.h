// Which experts the domains of a corpus use, and how many: ReMoE's Figures 9, 11 and 12
// (arXiv:2412.14711).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::analysis {

/// Below this share of the tokens ReMoE's Figure 8 calls an expert inactive.
inline constexpr double kInactiveLoad = 1.0 / 64;

struct DomainRouting {
  std::string name;
  std::int64_t tokens = 0;
  double loss = 0;                        ///< nats per token
  std::vector<std::vector<double>> load;  ///< [L][E], share of its tokens that the expert gets
  std::vector<double> active;             ///< [L], experts per token, Σ_e load

  /// Share of the domain's assignments in a layer that go to each expert, [E]; all 0 of none.
  std::vector<double> share(std::size_t layer) const;
};

/// How much of the choice of expert the domain explains, by layer [L]: the Jensen-Shannon
/// divergence of the domains' shares, each domain with the same weight, in nats.
///   1/D Σ_d Σ_e p_de ln(p_de / m_e),  m = mean of p_d
/// 0: every domain uses the experts alike; at most ln min(D, E).
std::vector<double> domain_divergence(const std::vector<DomainRouting>& domains);

}  // namespace penstock::analysis
