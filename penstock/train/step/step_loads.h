// What all micro-batches of a step ask of its experts, for balancers that count over the whole
// step: known before the passes that are trained. What they make of it is their own.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/train/step/part_sharing.h"
#include "penstock/train/step/step_work.h"

namespace penstock {

/// Counts by a forward pass without gradient over each of this rank's parts, with the draws of the
/// passes that are trained, and adds up over the ranks that divide the parts: whole numbers, so
/// that neither order nor ranks change them. Every rank calls it; where one fails, that one throws
/// its failure when all have counted, or at once where others are in the middle of a pass with it.
/// @return [L, E + 1] f64 by MoE layer: choices of each expert and tokens (requested_of_experts);
/// NaN where another rank failed
at::Tensor count_step(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      const std::vector<ModelMemory>& memory, const PartSharing& sharing);

}  // namespace penstock
