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
  /// [L][E], Plan::lowest_taken, mean over the layer's tokens; empty for a layer whose tokens
  /// choose.
  std::vector<std::vector<double>> lowest_taken = {};

  /// The mean number of experts per token in a layer; 0 for a layer that routed no token.
  double active(std::size_t layer) const;
};

/// Plan::lowest_taken [E], read from its device; none where it is undefined.
std::vector<double> plain_scores(const at::Tensor& lowest_taken);

/// Counts plans in whole numbers, so that the order of passes changes nothing but the last bits of
/// lowest_taken.
class StepCounts {
 public:
  /// @param layer  among the model's MoE layers
  void add(std::int64_t layer, const Plan& plan);
  /// The same from a plan's counts [E] of a pass over that many tokens, empty where it merges, and
  /// its lowest_taken [E], empty where it has none.
  void add(std::int64_t layer, std::span<const std::int64_t> counts, std::int64_t tokens,
           std::span<const double> lowest_taken = {});
  /// Adds the counts of other processes. @param sum  in place, over processes; numbers of one
  /// length, that of `shape`, on all
  void sum_with(const std::function<void(const at::Tensor&)>& sum, const RouterShape& shape);
  /// Whether no plan that assigns tokens was added.
  bool empty() const { return pairs_ == 0; }
  /// The statistics of all passes added since the last take().
  StepStatistics take();

 private:
  StepStatistics sums_;  // all but the sparsity; lowest_taken times the tokens of its pass
  std::int64_t assignments_ = 0, pairs_ = 0;  // (token, expert) pairs that are on, and T·E
};

}  // namespace penstock
