// Measures how evenly a layer's tokens are distributed over its experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::analysis {

struct ExpertLoad {
  std::vector<double> share;  ///< [E], each expert's share of the layer's assignments; sums to 1
  double variation = 0;       ///< standard deviation of the shares over experts ÷ their mean
  std::int64_t idle = 0;      ///< experts without any assignment
  double active = 0;          ///< assignments per token
};

/// share_e = n_e / Σ n,  variation = sqrt(Σ (n_e − n̄)² / E) / n̄; all 0 without assignments.
/// @param assignments  n_e, counts of one layer [E]
ExpertLoad expert_load(std::span<const double> assignments, std::int64_t tokens);

}  // namespace penstock::analysis
