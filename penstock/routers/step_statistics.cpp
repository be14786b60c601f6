#include "penstock/routers/step_statistics.h"

#include <utility>

namespace penstock {

void StepCounts::add(std::int64_t layer, const Plan& plan) {
  const auto index = static_cast<std::size_t>(layer);
  if (index >= expert_tokens_.size()) expert_tokens_.resize(index + 1);
  if (plan.merges()) return;
  auto& tokens = expert_tokens_[index];
  tokens.resize(static_cast<std::size_t>(plan.experts));
  const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
  for (std::size_t e = 0; e < tokens.size(); ++e) tokens[e] += offsets[e + 1] - offsets[e];
  assignments_ += plan.assignments();
  pairs_ += plan.tokens * plan.experts;
}

StepStatistics StepCounts::take() {
  StepStatistics out{.expert_tokens = std::exchange(expert_tokens_, {})};
  const std::int64_t assignments = std::exchange(assignments_, 0), pairs = std::exchange(pairs_, 0);
  if (pairs > 0) out.sparsity = 1 - static_cast<double>(assignments) / static_cast<double>(pairs);
  return out;
}

}  // namespace penstock
