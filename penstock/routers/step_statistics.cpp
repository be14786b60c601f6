#include "penstock/routers/step_statistics.h"

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

StepStatistics StepCounts::take() {
  StepStatistics out{.expert_tokens = std::exchange(expert_tokens_, {})};
  const std::int64_t assignments = std::exchange(assignments_, 0), pairs = std::exchange(pairs_, 0);
  if (pairs > 0) out.sparsity = 1 - static_cast<double>(assignments) / static_cast<double>(pairs);
  return out;
}

}  // namespace penstock
