// What a step costs in a run whose number of experts per token is on a schedule.
#pragma once

#include "penstock/train/recipe.h"

namespace penstock {

/// Useful training FLOPs of a step, the mean over the recipe's steps: each at the number of experts
/// per token that the router's schedule has there, nominal where it has none.
///   mean_s nominal_training_flops(k(s; train.steps))
/// REQUIRES: the model's vocabulary is known. Cost: O(steps).
double mean_flops_per_step(const Recipe& recipe);

}  // namespace penstock
