// The gradients of a step's parts, and one report of all of them. The update is step.h's.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/train/step/part_sharing.h"
#include "penstock/train/step/step_report.h"
#include "penstock/train/step/step_work.h"
#include "penstock/train/step_place.h"

namespace penstock {

/// Adds the gradients of what this rank's parts (parts_of_rank) minimise to those of the model's
/// parameters: of the whole model, or, where stages hold it between them, of this stage's layers.
/// Stops early, without gradients to trust, when a loss is not finite. With several ranks each
/// returns the same report of all parts (but for the seconds), and what stops or fails one is
/// thrown on all. Peers stop between two passes; what fails one of them in the middle of a pass is
/// thrown there at once, and the others lose that rank.
/// @param context  without a generator
/// @param draw_seed  seeds stochastic routers and dropout; the same value draws the same numbers
/// @param memory  by part, what its rows carry from step to step; grows to their number. To be
///                thrown away where the step fails.
/// @param watch  told of each part's layers, may be null; what it throws is passed on, and leaves
///               part of the gradients behind
StepReport accumulate(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      std::vector<ModelMemory>& memory, const StepWatch& watch = {},
                      const PartSharing& sharing = {});

}  // namespace penstock
