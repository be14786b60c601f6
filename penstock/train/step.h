// One optimizer step: micro-batches forward and backward, and what was seen on the way. It neither
// updates weights nor writes files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/data/batches.h"
#include "penstock/models/language_model.h"
#include "penstock/train/step_place.h"

namespace penstock {

/// Means over the step's tokens, micro-batches, passes and MoE layers; `statistics` are summed over
/// layers.
struct StepReport {
  double loss = 0;        ///< cross-entropy, nats per token
  double total_loss = 0;  ///< what was minimised: summed over passes, with auxiliary losses
  std::optional<double> consistency;  ///< disagreement of two passes, before its weight
  std::map<std::string, double> auxiliary_losses;  ///< by the part that adds it, over all layers
  std::int64_t tokens = 0, bytes = 0;
  double flops = 0;  ///< useful training FLOPs
  double forward_seconds = 0, backward_seconds = 0;
  // MoE only:
  double sparsity = 0, active_experts = 0;
  std::vector<double> sparsity_by_layer;
  std::vector<std::vector<double>> load;  ///< [L][E], assignments per token
  std::map<std::string, double> statistics;
  /// "" or what was not finite: "the loss", and the first layer that produced it.
  std::string non_finite;
};

/// Accumulates gradients of the model's training objective (objective.h), averaged over the
/// micro-batches, into the model's parameters. With two passes the graphs of both are held until
/// the backward pass, tokens count once, FLOPs twice, and the first pass's memory is carried on.
/// Stops early, without gradients to trust, when a loss is not finite.
/// @param draw_seed  seeds stochastic routers and dropout; the same value draws the same numbers
/// @param memory  by micro-batch, what its rows carry from step to step; grows to their number.
///                Not read where a batch begins anew. To be thrown away where the step fails.
/// @param watch  told of each micro-batch's layers, may be null; what it throws is passed on, and
///               leaves part of the gradients behind
StepReport forward_backward(LanguageModel& model, const std::vector<Batch>& micro_batches,
                            RoutingContext context, std::uint64_t draw_seed,
                            std::span<const std::int32_t> token_bytes,
                            std::vector<ModelMemory>& memory, const StepWatch& watch = {});

}  // namespace penstock
