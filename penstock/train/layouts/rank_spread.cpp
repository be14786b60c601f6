#include "penstock/train/layouts/rank_spread.h"

#include <algorithm>
#include <numeric>

#include "penstock/base/error.h"

namespace penstock {

nlohmann::ordered_json rank_spread(const std::vector<double>& by_rank) {
  PENSTOCK_ASSERT(!by_rank.empty());
  const auto most = std::ranges::max_element(by_rank);
  nlohmann::ordered_json out = {{"mean", std::accumulate(by_rank.begin(), by_rank.end(), 0.0) /
                                             static_cast<double>(by_rank.size())},
                                {"max", *most},
                                {"rank", most - by_rank.begin()}};
  if (by_rank.size() <= kListedRanks) out["by_rank"] = by_rank;
  return out;
}

nlohmann::ordered_json expert_rank_load(const std::vector<std::vector<double>>& load, int ranks) {
  std::vector<double> all(static_cast<std::size_t>(ranks));
  double waited_for = 0;  // Σ over layers of the busiest rank's load
  for (const auto& layer : load) {
    std::vector<double> of_layer(all.size());
    for (std::size_t e = 0; e < layer.size(); ++e)
      of_layer[e * all.size() / layer.size()] += layer[e];
    waited_for += *std::ranges::max_element(of_layer);
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] += of_layer[rank];
  }
  const double even = std::accumulate(all.begin(), all.end(), 0.0) / ranks;
  if (even == 0) return nullptr;
  for (double& of_rank : all) of_rank /= even;
  nlohmann::ordered_json out = rank_spread(all);
  out["max"] = waited_for / even;
  return out;
}

}  // namespace penstock
