// Counts of the routers' decisions in one optimizer step, for balancers that move once a step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "penstock/routers/routing.h"

namespace penstock {

/// The statistics of all training passes of one optimizer step, over all micro-batches.
struct StepStatistics {
  double sparsity = 0;  ///< 1 − Σ A / Σ T·E over layers; 0 where plans merge
  /// [L][E], assignments by MoE layer and expert; empty for a layer whose plans merge.
  std::vector<std::vector<std::int64_t>> expert_tokens = {};
  /// [L], tokens that the layer's passes routed; 0 for a layer whose plans merge.
  std::vector<std::int64_t> tokens = {};
  /// [L][E], the mean of Plan::lowest_taken over the layer's tokens; empty for a layer whose tokens
  /// choose experts.
  std::vector<std::vector<double>> lowest_taken = {};

  /// The mean number of experts per token in a layer; 0 for a layer that routed no token.
  double active(std::size_t layer) const;
};

/// The values of Plan::lowest_taken [E], copied from its device; empty if it is undefined.
std::vector<double> plain_scores(const at::Tensor& lowest_taken);

/// The values of expert_counts(); empty if the plan merges.
std::vector<std::int64_t> plain_counts(const Plan& plan);

/// Sums the counts of plans. Counts are whole numbers, so that the order of passes changes only the
/// last bits of lowest_taken.
class StepCounts {
 public:
  /// Adds the counts of a plan.
  /// @param layer  index among the model's MoE layers
  void add(std::int64_t layer, const Plan& plan);
  /// Adds the counts of a pass over `tokens` tokens.
  /// @param counts  plain_counts() of the plan
  /// @param lowest_taken  [E], the plan's lowest_taken; empty if it is undefined
  void add(std::int64_t layer, std::span<const std::int64_t> counts, std::int64_t tokens,
           std::span<const double> lowest_taken = {});
  /// Adds the counts of other processes.
  /// @param sum  sums a tensor over processes, in place. The tensor's length follows from `shape`,
  ///             so it is the same in every process.
  void sum_with(const std::function<void(const at::Tensor&)>& sum, const RouterShape& shape);
  /// Whether no plan that assigns tokens was added.
  bool empty() const { return pairs_ == 0; }
  /// The statistics of all passes added since the last take().
  StepStatistics take();

 private:
  StepStatistics sums_;  // without the sparsity; lowest_taken is times the tokens of its pass
  std::int64_t assignments_ = 0, pairs_ = 0;  // (token, expert) pairs that are on, and T·E
};

}  // namespace penstock
