// What an optimizer step saw and did.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/models/counts/flops.h"
#include "penstock/routers/step_statistics.h"

namespace penstock {

/// Means over the step's tokens or texts, parts, passes and MoE layers; `statistics` are summed
/// over layers.
struct StepReport {
  double loss = 0;        ///< cross-entropy, nats per token or text
  double total_loss = 0;  ///< what was minimised: summed over passes, with auxiliary losses
  std::optional<double> consistency;  ///< disagreement of two passes, before its weight
  std::map<std::string, double> auxiliary_losses;  ///< by the part that adds it, over all layers
  std::int64_t tokens = 0, bytes = 0;              ///< bytes 0: not known
  double flops = 0;                                ///< useful training FLOPs; 0: not counted
  // Attention's reads in one pass over the tokens: (query, key) pairs, and memory.
  double attended_pairs = 0;
  MemoryWork remembered;
  double forward_seconds = 0, backward_seconds = 0;
  /// With several ranks: the time each rank computed in these passes, without waiting for others.
  std::vector<double> rank_seconds;
  // Classification only:
  std::int64_t texts = 0;
  double accuracy = 0;  ///< of the batch, with dropout
  // MoE only:
  StepStatistics routing;
  double sparsity = 0, active_experts = 0;
  std::vector<double> sparsity_by_layer;
  std::vector<std::vector<double>> load;  ///< [L][E], assignments per token
  std::map<std::string, double> statistics;
  /// "" or what was not finite: "the loss", and the first layer that produced it.
  std::string non_finite;
};

/// What a step did, besides the report of its forward and backward passes.
struct StepOutcome {
  StepReport report;
  double learning_rate = 0, gradient_norm = 0, seconds = 0;
  double update_seconds = 0;         ///< clipping, optimizer and balancers
  int ranks = 1;                     ///< processes that shared the step
  double communication_seconds = 0;  ///< between them, waiting included
  int expert_ranks = 1;              ///< that held a layer's experts between them
  std::int64_t outer_step = 0;       ///< that followed, from 1, where ranks train apart; 0: none
  /// Whether the CPU did it, whose peak a share of peak is taken of.
  bool on_cpu = true;
  /// "" or why the update was not made: the state is that of the last good step.
  std::string failure;
};

}  // namespace penstock
