// Counts the FLOPs of a step in a run whose number of experts per token may follow a schedule.
#pragma once

#include "penstock/train/recipe.h"

namespace penstock {

/// Useful training FLOPs of a step, as the mean over the recipe's steps. Each step counts with the
/// number of experts per token that the router's schedule gives it, or with the nominal number if
/// there is no schedule.
///   mean_s nominal_training_flops(k(s; train.steps))
/// REQUIRES: the model's vocabulary is known. Cost: O(steps).
double mean_flops_per_step(const Recipe& recipe);

}  // namespace penstock
