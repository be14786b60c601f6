// Whether a training fits into this machine's memory, told before it begins.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/dist/mesh.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/train/recipe.h"
#include "penstock/train/recompute_choice.h"

namespace penstock {

/// "78.2 GiB (weights 1.2, gradients 1.2, AdamW 2.4, activations about 73.4)", in MiB below one
/// GiB.
std::string memory_text(const TrainingMemory& memory);

struct CountedTraining {
  TrainingMemory memory;
  RecomputeChoice recomputation;
};
/// Memory of one of so many processes, and what is computed again so that it fits into the recipe's
/// budget. REQUIRES: as memory_of_training().
CountedTraining count_training(const Recipe& recipe, int processes = 1);
/// The same of a rank of that layout.
CountedTraining count_training(const Recipe& recipe, const dist::Layout& layout);

/// What training computes again in the backward pass, the same on all ranks. Throws Error where the
/// recipe's budget cannot be met.
Recomputation recomputation_of(const Recipe& recipe, const dist::Layout& layout = {});

/// training_memory() of one of so many processes, with the copies of the gradients that a sum in a
/// tree holds, without what the recipe's [parallel] divides. REQUIRES: layout_of() takes them.
TrainingMemory memory_of_training(const Recipe& recipe, int processes = 1);

/// Of which processes one is asked about.
struct RunProcesses {
  int all = 1, here = 1;  ///< of the run, and of these on this machine
  bool first = true;      ///< whether it is rank 0, which gathers the whole model to evaluate it
};
/// Bytes of memory_of_training(), of the exchange's buffers, of what it gets of others to write its
/// piece of a checkpoint, and of rank 0 what it takes to evaluate: an even share of that for each
/// process here, since all of them share the machine's memory.
double bytes_of_process(const Recipe& recipe, const RunProcesses& processes);

/// Throws Error where bytes_of_process() of the recipe, whose vocabulary is known, is more than
/// `available` bytes. The message has the figures and the keys to lower, with a value that fits
/// where there is one.
/// @param available  an even share of what this machine has for its processes of the run
void check_training_memory(const Recipe& recipe, double available,
                           const RunProcesses& processes = {});

/// Bytes of a copy of what a checkpoint holds: weights and AdamW's moments.
std::int64_t checkpoint_bytes(const Recipe& recipe);
/// Bytes that writing checkpoints while training goes on takes of the process that writes them; 0
/// where the recipe wants none of it, or saves nothing before its end.
std::int64_t checkpoint_copy_bytes(const Recipe& recipe);

/// That `copy` bytes of such a copy do not fit into what training leaves; "" where they do.
std::string why_training_waits(std::int64_t copy, double left);

}  // namespace penstock
