// How evenly a step's work lay on its ranks, as lines of metrics.jsonl say it.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace penstock {

/// Up to so many ranks each one's figure is written, beyond that the largest and the mean alone.
inline constexpr std::size_t kListedRanks = 16;

/// {"mean", "max", "rank": that has the maximum, "by_rank": [...]}.  REQUIRES: not empty.
nlohmann::ordered_json rank_spread(const std::vector<double>& by_rank);

/// Assignments that each of `ranks` computes, which hold equal numbers of consecutive experts, in
/// even shares: their mean is 1. As rank_spread() of each rank's over all layers, but "max" is of
/// each layer's busiest rank, since every layer waits for that:
///   max = Σ_l max_r load_{l,r} / Σ_l mean_r load_{l,r}
/// null where nothing was assigned.
/// @param load  [L][E]
nlohmann::ordered_json expert_rank_load(const std::vector<std::vector<double>>& load, int ranks);

}  // namespace penstock
