#include "penstock/analysis/expert_load.h"

#include <cmath>
#include <numeric>

namespace penstock::analysis {

ExpertLoad expert_load(std::span<const double> assignments, std::int64_t tokens) {
  ExpertLoad out;
  const double total = std::accumulate(assignments.begin(), assignments.end(), 0.0);
  const auto experts = static_cast<double>(assignments.size());
  double squares = 0;
  for (const double count : assignments) {
    out.share.push_back(total > 0 ? count / total : 0);
    out.idle += count == 0;
    squares += (count - total / experts) * (count - total / experts);
  }
  if (total > 0) out.variation = std::sqrt(squares / experts) / (total / experts);
  if (tokens > 0) out.active = total / static_cast<double>(tokens);
  return out;
}

}  // namespace penstock::analysis
