#include "penstock/routers/step_statistics.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock {

double StepStatistics::active(std::size_t layer) const {
  if (layer >= tokens.size() || tokens[layer] == 0) return 0;
  const auto& counts = expert_tokens[layer];
  const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return static_cast<double>(sum) / static_cast<double>(tokens[layer]);
}

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
  if (index >= sums_.tokens.size()) {
    sums_.expert_tokens.resize(index + 1);
    sums_.tokens.resize(index + 1);
  }
  if (counts.empty()) return;
  auto& sums = sums_.expert_tokens[index];
  sums.resize(counts.size());
  for (std::size_t e = 0; e < counts.size(); ++e) {
    sums[e] += counts[e];
    assignments_ += counts[e];
  }
  sums_.tokens[index] += tokens;
  pairs_ += tokens * std::ssize(counts);
}

void StepCounts::sum_with(const std::function<void(const at::Tensor&)>& sum,
                          const RouterShape& shape) {
  at::Tensor numbers = at::zeros({shape.layers, shape.experts + 1}, at::kLong);  // counts, tokens
  const auto row = [&](std::size_t layer) {
    return std::span(numbers.data_ptr<std::int64_t>(), static_cast<std::size_t>(numbers.numel()))
        .subspan(layer * static_cast<std::size_t>(shape.experts + 1),
                 static_cast<std::size_t>(shape.experts + 1));
  };
  for (std::size_t layer = 0; layer < sums_.tokens.size(); ++layer) {
    std::ranges::copy(sums_.expert_tokens[layer], row(layer).begin());
    row(layer).back() = sums_.tokens[layer];
  }
  sum(numbers);
  take();
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto all = row(static_cast<std::size_t>(layer));
    const auto counts = all.first(static_cast<std::size_t>(shape.experts));
    add(layer, all.back() > 0 ? counts : counts.first(0), all.back());  // 0: it merges
  }
}

StepStatistics StepCounts::take() {
  StepStatistics out = std::exchange(sums_, {});
  const std::int64_t assignments = std::exchange(assignments_, 0), pairs = std::exchange(pairs_, 0);
  if (pairs > 0) out.sparsity = 1 - static_cast<double>(assignments) / static_cast<double>(pairs);
  return out;
}

}  // namespace penstock
