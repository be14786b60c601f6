// The report of an optimizer step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/models/counts/flops.h"
#include "penstock/routers/step_statistics.h"

namespace penstock {

/// Means over the step's tokens or texts, parts, passes and MoE layers. `statistics` are sums over
/// layers.
struct StepReport {
  double loss = 0;        ///< cross-entropy, nats per token or text
  double total_loss = 0;  ///< minimised objective: summed over passes, with auxiliary losses
  std::optional<double> consistency;  ///< disagreement of two passes, before its weight
  std::map<std::string, double> auxiliary_losses;  ///< by router part, summed over all layers
  std::int64_t tokens = 0, bytes = 0;              ///< bytes 0: not known
  double flops = 0;                                ///< useful training FLOPs; 0: not counted
  // The work of attention in one pass over the tokens: (query, key) pairs, and reads of memory.
  double attended_pairs = 0;
  MemoryWork remembered;
  double forward_seconds = 0, backward_seconds = 0;
  /// With several ranks: the time that each rank computed in these passes, without waiting.
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
  /// "", or which value was not finite: "the loss", and the first layer that produced it.
  std::string non_finite;
};

/// The outcome of a step: the report of its forward and backward passes, and its update.
struct StepOutcome {
  StepReport report;
  double learning_rate = 0, gradient_norm = 0, seconds = 0;
  double update_seconds = 0;         ///< clipping, optimizer and balancers
  int ranks = 1;                     ///< processes that shared the step
  double communication_seconds = 0;  ///< communication between the ranks, including waiting
  int expert_ranks = 1;              ///< ranks that a layer's experts are divided between
  /// Number, from 1, of the outer step that followed where ranks train apart; 0: none.
  std::int64_t outer_step = 0;
  /// Whether the step ran on the CPU. Only such a step has a share of peak FLOP/s.
  bool on_cpu = true;
  /// "", or why the update was not made. The state is then that of the last good step.
  std::string failure;
};

}  // namespace penstock
