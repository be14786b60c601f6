// Counts the expert loads of all micro-batches of a step before its training passes, for balancers
// that need the counts of the whole step. It does not balance.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/train/step/part_sharing.h"
#include "penstock/train/step/step_work.h"

namespace penstock {

/// Counts by a forward pass without gradient over each of this rank's parts. The pass draws the
/// same random numbers as the training pass. Sums the counts over the ranks that divide the parts.
/// Counts are whole numbers, so neither the order nor the number of ranks changes the sums. Every
/// rank calls it. A rank that fails throws after all ranks have counted; with peers it throws at
/// once.
/// @return [L, E + 1] f64 by MoE layer: choices of each expert, then tokens (requested_of_experts);
/// NaN if another rank failed
at::Tensor count_step(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      const std::vector<ModelMemory>& memory, const PartSharing& sharing);

}  // namespace penstock
