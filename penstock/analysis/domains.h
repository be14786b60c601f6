// Measures which experts, and how many, the domains of a corpus use: ReMoE's Figures 9, 11 and 12
// (arXiv:2412.14711).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::analysis {

/// ReMoE's Figure 8 calls an expert inactive if it gets less than this share of the tokens.
inline constexpr double kInactiveLoad = 1.0 / 64;

struct DomainRouting {
  std::string name;
  std::int64_t tokens = 0;
  double loss = 0;                        ///< nats per token
  std::vector<std::vector<double>> load;  ///< [L][E], share of the domain's tokens by expert
  std::vector<double> active;             ///< [L], experts per token, Σ_e load

  /// Each expert's share of the domain's assignments in a layer, [E]; all 0 without assignments.
  std::vector<double> share(std::size_t layer) const;
};

/// How strongly the choice of experts depends on the domain, by layer [L]: the Jensen-Shannon
/// divergence of the domains' shares, each domain with the same weight, in nats.
///   1/D Σ_d Σ_e p_de ln(p_de / m_e),  m = mean of p_d
/// 0 if all domains have the same shares; at most ln min(D, E).
std::vector<double> domain_divergence(const std::vector<DomainRouting>& domains);

}  // namespace penstock::analysis
