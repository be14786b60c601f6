// What several processes ask of a recipe, and what they change in it.
#pragma once

#include "penstock/train/recipe.h"

namespace penstock {

/// Throws Error where that many processes cannot train the recipe: each needs a micro-batch.
void check_processes(const Recipe& recipe, int processes);

/// Puts in the place of train.gradient_sum = "auto" what the run began with, and tree with several
/// processes; says so in the notes where a run that was begun in turn goes on in a tree.
/// @param begun  the recipe of the run that goes on, or null
void choose_gradient_sum(Recipe& recipe, const Recipe* begun, int processes);

/// run.threads; where that is open this process's share of the cores, at least one.
int threads_of_process(const Recipe& recipe, int processes_here);

}  // namespace penstock
