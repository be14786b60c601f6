#include "penstock/routers/step_statistics.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock {

void StepCounts::add(std::int64_t layer, const Plan& plan) {
  std::vector<std::int64_t> counts;
  if (!plan.merges()) {
    const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
    for (std::int64_t e = 0; e < plan.experts; ++e) counts.push_back(offsets[e + 1] - offsets[e]);
  }
  add(layer, counts, plan.tokens);
}

void StepCounts::add(std::int64_t layer, std::span<const std::int64_t> counts,
                     std::int64_t tokens) {
  const auto index = static_cast<std::size_t>(layer);
  if (index >= expert_tokens_.size()) expert_tokens_.resize(index + 1);
  if (counts.empty()) return;
  auto& sums = expert_tokens_[index];
  sums.resize(counts.size());
  for (std::size_t e = 0; e < counts.size(); ++e) {
    sums[e] += counts[e];
    assignments_ += counts[e];
  }
  pairs_ += tokens * std::ssize(counts);
}

void StepCounts::sum_with(const std::function<void(const at::Tensor&)>& sum,
                          const RouterShape& shape) {
  at::Tensor numbers = at::zeros({shape.layers * shape.experts + 1}, at::kLong);
  auto* const all = numbers.data_ptr<std::int64_t>();
  for (std::size_t layer = 0; layer < expert_tokens_.size(); ++layer)
    std::ranges::copy(expert_tokens_[layer],
                      all + static_cast<std::int64_t>(layer) * shape.experts);
  all[shape.layers * shape.experts] = pairs_;
  sum(numbers);
  expert_tokens_.resize(static_cast<std::size_t>(shape.layers));
  assignments_ = 0;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::span row(all + layer * shape.experts, static_cast<std::size_t>(shape.experts));
    const auto tokens = std::accumulate(row.begin(), row.end(), std::int64_t{0});
    auto& mine = expert_tokens_[static_cast<std::size_t>(layer)];
    if (tokens > 0) mine.assign(row.begin(), row.end());  // a layer that merges stays empty
    assignments_ += tokens;
  }
  pairs_ = all[shape.layers * shape.experts];
}

StepStatistics StepCounts::take() {
  StepStatistics out{.expert_tokens = std::exchange(expert_tokens_, {})};
  const std::int64_t assignments = std::exchange(assignments_, 0), pairs = std::exchange(pairs_, 0);
  if (pairs > 0) out.sparsity = 1 - static_cast<double>(assignments) / static_cast<double>(pairs);
  return out;
}

}  // namespace penstock
