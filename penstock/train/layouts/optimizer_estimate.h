// What a rank's optimizer holds, receives and sends in a step, added up group by group of
// parameters, for the estimate of a rank. How long sending takes is rank_traffic.h's.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/models/counts/training_memory.h"
#include "penstock/train/layouts/machine_speeds.h"
#include "penstock/train/layouts/rank_traffic.h"
#include "penstock/train/layouts/sharing_bytes.h"

namespace penstock {

/// What a stage's rank holds for the optimizer, and what it sends for it.
struct OptimizerEstimate {
  TrainingMemory memory;
  double shares = 0, share_sums = 0;        ///< numbers of gradients in shares, and of their sums
  std::int64_t exchange = 0, carriers = 0;  // what arrives; files, or messages
  rank_traffic::Sent gradients{"gradients"}, sums{"summed_gradients"};
  // Numbers, of all those whose gradients are exchanged, and of these those that come last.
  double parameters = 0, updated = 0, exchanged = 0, last = 0;
  std::int64_t to_make_whole = 0;

  /// @param units   layers, and what no layer has, of whose parameters these are
  /// @param stride  between neighbours that exchange them
  void add(const std::vector<ParameterSize>& sizes, const SharedSteps& steps, double units,
           bool rest, int stride, const MachineSpeeds& speeds);
  /// What ranks of `tensor` have shares of the gradient of: matrices are summed by themselves.
  /// @param numbers  that this rank sums up;  @param alone  whether by itself
  void add_shares(double numbers, bool alone);
  /// Of ranks that train apart: that of one process, and of the outer steps what a rank keeps for
  /// all, their weights and momentum.
  void add_apart(const std::vector<ParameterSize>& sizes, const SharedSteps& steps, double units,
                 double local_steps, const MachineSpeeds& speeds);
};

}  // namespace penstock
