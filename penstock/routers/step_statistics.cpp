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

std::vector<double> plain_scores(const at::Tensor& lowest_taken) {
  if (!lowest_taken.defined()) return {};
  const at::Tensor here = lowest_taken.to(at::kCPU, at::kDouble).contiguous();
  return {here.data_ptr<double>(), here.data_ptr<double>() + here.numel()};
}

std::vector<std::int64_t> plain_counts(const Plan& plan) {
  if (plan.merges()) return {};
  const at::Tensor counts = expert_counts(plan);
  const auto* first = counts.data_ptr<std::int64_t>();
  return {first, first + counts.numel()};
}

void StepCounts::add(std::int64_t layer, const Plan& plan) {
  add(layer, plain_counts(plan), plan.tokens, plain_scores(plan.lowest_taken));
}

void StepCounts::add(std::int64_t layer, std::span<const std::int64_t> counts, std::int64_t tokens,
                     std::span<const double> lowest_taken) {
  const auto index = static_cast<std::size_t>(layer);
  if (index >= sums_.tokens.size()) {
    sums_.expert_tokens.resize(index + 1);
    sums_.tokens.resize(index + 1);
    sums_.lowest_taken.resize(index + 1);
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
  if (lowest_taken.empty()) return;
  auto& scores = sums_.lowest_taken[index];
  scores.resize(lowest_taken.size());
  for (std::size_t e = 0; e < scores.size(); ++e)
    scores[e] += lowest_taken[e] * static_cast<double>(tokens);
}

void StepCounts::sum_with(const std::function<void(const at::Tensor&)>& sum,
                          const RouterShape& shape) {
  // Numbers of each layer: counts, tokens, sums of lowest_taken, and the number of processes that
  // have lowest_taken.
  const auto experts = static_cast<std::size_t>(shape.experts), length = 2 * experts + 2;
  std::vector<double> numbers(static_cast<std::size_t>(shape.layers) * length);
  const auto row = [&](std::size_t layer) {
    return std::span(numbers).subspan(layer * length, length);
  };
  for (std::size_t layer = 0; layer < sums_.tokens.size(); ++layer) {
    std::ranges::copy(sums_.expert_tokens[layer], row(layer).begin());
    row(layer)[experts] = static_cast<double>(sums_.tokens[layer]);
    std::ranges::copy(sums_.lowest_taken[layer], row(layer).subspan(experts + 1).begin());
    row(layer).back() = sums_.lowest_taken[layer].empty() ? 0 : 1;
  }
  sum(at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kDouble));
  take();
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(shape.layers); ++layer) {
    const auto all = row(layer);
    const auto tokens = static_cast<std::int64_t>(all[experts]);
    const std::vector<std::int64_t> counts(all.begin(),
                                           all.begin() + (tokens > 0 ? shape.experts : 0));
    add(static_cast<std::int64_t>(layer), counts, tokens);  // empty counts: the layer merges
    if (all.back() > 0)
      sums_.lowest_taken[layer].assign(all.begin() + shape.experts + 1, all.end() - 1);
  }
}

StepStatistics StepCounts::take() {
  StepStatistics out = std::exchange(sums_, {});
  for (std::size_t layer = 0; layer < out.tokens.size(); ++layer)
    for (double& score : out.lowest_taken[layer]) score /= static_cast<double>(out.tokens[layer]);
  const std::int64_t assignments = std::exchange(assignments_, 0), pairs = std::exchange(pairs_, 0);
  if (pairs > 0) out.sparsity = 1 - static_cast<double>(assignments) / static_cast<double>(pairs);
  return out;
}

}  // namespace penstock
