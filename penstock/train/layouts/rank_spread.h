// Figures of how evenly a step's work was spread over its ranks, for lines of metrics.jsonl.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace penstock {

/// Up to this number of ranks, every rank's figure is written; above it, only maximum and mean.
inline constexpr std::size_t kListedRanks = 16;

/// {"mean", "max", "rank": the rank with the maximum, "by_rank": [...]}.  REQUIRES: by_rank is not
/// empty.
nlohmann::ordered_json rank_spread(const std::vector<double>& by_rank);

/// The load of each of `ranks` ranks, which hold equal numbers of consecutive experts. A rank's
/// load is its number of assignments over all layers / mean over ranks, so the mean is 1. The form
/// is that of rank_spread(), but "max" adds up the busiest rank of each layer, because every layer
/// waits for its busiest rank:
///   max = Σ_l max_r load_{l,r} / Σ_l mean_r load_{l,r}
/// null if nothing was assigned.
/// @param load  [L][E]
nlohmann::ordered_json expert_rank_load(const std::vector<std::vector<double>>& load, int ranks);

}  // namespace penstock
