// Estimates the bytes that a rank's optimizer holds, receives and sends in a step. It adds up
// groups of parameters for the estimate of a rank. rank_traffic.h estimates the time of sending.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/models/counts/training_memory.h"
#include "penstock/train/layouts/machine_speeds.h"
#include "penstock/train/layouts/rank_traffic.h"
#include "penstock/train/layouts/sharing_bytes.h"

namespace penstock {

/// The memory and the traffic of the optimizer of one stage's rank.
struct OptimizerEstimate {
  TrainingMemory memory;
  /// Gradient elements of which each rank of `tensor` has a partial sum, and the number of their
  /// all-reduces.
  double shares = 0, share_sums = 0;
  // bytes of received data; of the files or messages that carry it
  std::int64_t exchange = 0, carriers = 0;
  rank_traffic::Sent gradients{"gradients"}, sums{"summed_gradients"};
  // Elements: of all parameters, of those that this rank updates, of those whose gradients are
  // exchanged, and of those whose gradients the backward pass completes last.
  double parameters = 0, updated = 0, exchanged = 0, last = 0;
  std::int64_t to_make_whole = 0;  ///< SharingBytes::to_make_whole

  /// Adds a group of parameters.
  /// @param units   number of layers that the parameters belong to
  /// @param rest    whether some parameters belong to no layer
  /// @param stride  difference in rank between neighbours that exchange the parameters
  void add(const std::vector<ParameterSize>& sizes, const SharedSteps& steps, double units,
           bool rest, int stride, const MachineSpeeds& speeds);
  /// Adds a parameter of whose gradient each rank of `tensor` has a partial sum.
  /// @param numbers  elements that this rank sums;  @param alone  whether it has its own
  ///                 all-reduce, as matrices do
  void add_shares(double numbers, bool alone);
  /// Adds all parameters of ranks that train apart (DiLoCo): the optimizer of one process, and this
  /// rank's spans of the outer step's weights and momentum.
  void add_apart(const std::vector<ParameterSize>& sizes, const SharedSteps& steps, double units,
                 double local_steps, const MachineSpeeds& speeds);
};

}  // namespace penstock
