// What several processes ask of a recipe, and what they change in it.
#pragma once

#include "penstock/dist/mesh.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// How so many processes divide the work, by the recipe's [parallel]: parallel.expert lies within
/// parallel.data, or beside it where there are as many processes as that takes. Throws Error, with
/// what would fit, where they cannot, and where the recipe cannot be divided so: its model, or its
/// step, of which each needs a micro-batch.
dist::Layout layout_of(const Recipe& recipe, int processes);

/// The processes that the recipe is meant for: those that its [parallel] names.
int processes_of(const Recipe& recipe);

/// Puts in the place of train.gradient_sum = "auto" what the run began with, and tree with several
/// processes; says so in the notes where a run that was begun in turn goes on in a tree.
/// @param begun  the recipe of the run that goes on, or null
void choose_gradient_sum(Recipe& recipe, const Recipe* begun, int processes);

/// run.threads; where that is open this process's share of the cores, at least one.
int threads_of_process(const Recipe& recipe, int processes_here);

}  // namespace penstock
