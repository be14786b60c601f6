// What one of the processes of a layout holds, sends and waits for, from the recipe alone: for
// plans of machines that are not there. Nothing is measured here.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "penstock/dist/mesh.h"
#include "penstock/models/census.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// What an estimate of time takes for given.
struct MachineSpeeds {
  double flops = 1e11;        ///< useful FLOP/s of one process while it computes
  double bandwidth = 1.25e9;  ///< bytes/s that one process sends
  double latency = 5e-5;      ///< seconds of a message
};

/// Of the rank that has most of each.
struct RankEstimate {
  int ranks = 1;
  TrainingMemory memory;
  std::int64_t exchange_bytes = 0;  ///< buffers of what is sent and received at a time
  /// Sent in a step, by what it is: "gradients", "summed_gradients", "weights", "tensor", "stages",
  /// "tokens". Of ranks that train apart the mean of a step, with what an outer step sends.
  std::vector<std::pair<std::string, std::int64_t>> bytes_per_step;
  double compute_seconds = 0;   ///< of its share of the step, with what it is idle in a pipeline
  double exchange_seconds = 0;  ///< with nothing hidden behind the computation
  double step_seconds = 0;
};

/// With P micro-batches of a data rank, p stages of c chunks, D·t·p ranks and T tokens of a
/// micro-batch:
///   compute  = useful FLOPs of a step / (D·t·p) / flops · (1 + (p − 1) / (c·P))
///   exchange = Σ bytes / bandwidth + messages · latency
///   step     = compute + exchange − what overlaps: with parallel.overlap the gradients' exchange
///              goes on beside the last micro-batch's backward pass, two thirds of its computing;
///              with parallel.local_steps = H one step of H exchanges, and nothing is beside it
/// Tokens that choose k of E experts on e ranks at random go to (e − 1)·(1 − (1 − 1/e)^k) others.
/// REQUIRES: the recipe's vocabulary is known; layout_of() takes the layout.
RankEstimate estimate_rank(const Recipe& recipe, const dist::Layout& layout,
                           const MachineSpeeds& speeds = {});

}  // namespace penstock
