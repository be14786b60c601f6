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

/// Assignments that each of `ranks` computes, which hold equal numbers of consecutive experts, over
/// all layers, in even shares: their mean is 1. Empty where nothing was assigned.
/// @param load  [L][E]
std::vector<double> expert_rank_load(const std::vector<std::vector<double>>& load, int ranks);

}  // namespace penstock
