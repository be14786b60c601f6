#include "penstock/train/rank_spread.h"

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

std::vector<double> expert_rank_load(const std::vector<std::vector<double>>& load, int ranks) {
  std::vector<double> out(static_cast<std::size_t>(ranks));
  double sum = 0;
  for (const auto& layer : load)
    for (std::size_t e = 0; e < layer.size(); ++e) {
      out[e * out.size() / layer.size()] += layer[e];
      sum += layer[e];
    }
  if (sum == 0) return {};
  for (double& of_rank : out) of_rank *= ranks / sum;
  return out;
}

}  // namespace penstock
