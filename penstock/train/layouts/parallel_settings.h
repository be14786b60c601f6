// Checks that a recipe suits several processes, and sets the keys that depend on their number.
#pragma once

#include "penstock/dist/mesh.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// The layout in which `processes` processes divide the work by the recipe's [parallel]. If
/// parallel.data > 0, there have to be data × tensor × pipeline processes, or expert times as many;
/// the layout's data axis then has data × expert ranks. Throws Error with a value that fits, if the
/// number of processes does not fit or the recipe's model or step cannot be divided so. Each data
/// rank needs a micro-batch.
dist::Layout layout_of(const Recipe& recipe, int processes);

/// The number of processes that the recipe's [parallel] names.
int processes_of(const Recipe& recipe);

/// Replaces train.gradient_sum = "auto": with "tree" for several processes or if the run began with
/// it, otherwise with "in-turn". Adds a note if a run that began in turn continues with a tree.
/// @param begun  the recipe of the run that continues, or null
void choose_gradient_sum(Recipe& recipe, const Recipe* begun, int processes);

/// run.threads. If it is 0 and a machine has several processes: this process's share of the cores,
/// at least one.
int threads_of_process(const Recipe& recipe, int processes_here);

}  // namespace penstock
