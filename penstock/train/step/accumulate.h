// Computes the gradients of a step's parts and one report of all parts. step.h makes the update.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/train/step/part_sharing.h"
#include "penstock/train/step/step_report.h"
#include "penstock/train/step/step_work.h"
#include "penstock/train/step_place.h"

namespace penstock {

/// Adds the gradients of this rank's parts (parts_of_rank) to the gradients of the model's
/// parameters. With a pipeline the parameters are those of this stage's layers.
/// Stops early when a loss is not finite; the gradients are then not valid. Every rank returns the
/// same report of all parts, except for the seconds. If a signal stops one rank or one rank fails,
/// all ranks throw. A signal stops peers between two passes. A peer that fails in the middle of a
/// pass throws at once, and the other ranks throw because they lost it.
/// @param context  without a generator
/// @param draw_seed  seeds stochastic routers and dropout; the same value draws the same numbers
/// @param memory  by part, the memory that its rows carry from step to step. The vector grows to
///                the number of parts. The caller discards the vector if the step fails.
/// @param watch  is called for each part's layers; may be null. accumulate() passes on its
///               exceptions; some gradients have then been added.
StepReport accumulate(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      std::vector<ModelMemory>& memory, const StepWatch& watch = {},
                      const PartSharing& sharing = {});

}  // namespace penstock
