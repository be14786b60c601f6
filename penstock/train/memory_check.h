// Checks before a training begins whether it fits into this machine's memory.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/dist/mesh.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/train/recipe.h"
#include "penstock/train/recompute_choice.h"

namespace penstock {

/// "78.2 GiB (weights 1.2, gradients 1.2, AdamW 2.4, activations about 73.4)", in MiB below one
/// GiB, in KiB below one MiB.
std::string memory_text(const TrainingMemory& memory);

struct CountedTraining {
  TrainingMemory memory;
  RecomputeChoice recomputation;
};
/// Memory of one of `processes` processes, and the layers that it computes again in the backward
/// pass to fit into the recipe's budget. REQUIRES: as memory_of_training().
CountedTraining count_training(const Recipe& recipe, int processes = 1);
/// The same for a rank of the given layout.
CountedTraining count_training(const Recipe& recipe, const dist::Layout& layout);

/// The layers that training computes again in the backward pass, the same on all ranks. Throws
/// Error if the recipe's budget cannot be met.
Recomputation recomputation_of(const Recipe& recipe, const dist::Layout& layout = {});

/// training_memory() of one of `processes` processes. It includes the copies of gradients that a
/// sum in a tree holds. It counts one share of everything that the recipe's [parallel] divides.
/// REQUIRES: layout_of() accepts the recipe and the number of processes.
TrainingMemory memory_of_training(const Recipe& recipe, int processes = 1);

/// The processes of a run, and the one whose memory is counted.
struct RunProcesses {
  int all = 1, here = 1;  ///< number of the run's processes: in total, and on this machine
  bool first = true;      ///< whether the process is rank 0, which gathers the model to evaluate
};
/// memory_of_training() for processes that share memory: with zero > 0 and all processes on one
/// machine it counts a share of the one copy of the weights. Processes try only in their first step
/// whether they can share memory. If they cannot, each holds the weights of memory_of_training().
TrainingMemory memory_of_process(const Recipe& recipe, const RunProcesses& processes);
/// Bytes that one process takes: memory_of_process(), the buffers of the exchange, and the tensors
/// that it receives from other ranks to write its piece of a checkpoint. Rank 0 alone takes more
/// memory: to evaluate and, if ranks train apart, to gather the whole checkpoint. Rank 0's figure
/// includes 1/`here` of this, because all processes here share the machine's memory.
double bytes_of_process(const Recipe& recipe, const RunProcesses& processes);
/// Bytes that one process takes before its first pass, while it has its own whole weights, its
/// moments, and its spans of the weights. The spans are in the one copy, or with zero = 3 between
/// machines in the process's own memory. 0 if the weights are not divided.
double bytes_to_divide(const Recipe& recipe, const RunProcesses& processes);

/// Throws Error if bytes_of_process() or bytes_to_divide() is more than `available` bytes. The
/// message has the figures and the keys to lower, with a value that fits if there is one. REQUIRES:
/// the recipe's vocabulary is known.
/// @param available  an even share of this machine's memory for its processes of the run
void check_training_memory(const Recipe& recipe, double available,
                           const RunProcesses& processes = {});

/// Bytes of a copy of a checkpoint's tensors: weights and AdamW's moments.
std::int64_t checkpoint_bytes(const Recipe& recipe);
/// Bytes of the copy from which a process writes checkpoints while training goes on; 0 if the
/// recipe turns the copy off or saves nothing before its end.
std::int64_t checkpoint_copy_bytes(const Recipe& recipe);

/// A sentence that a checkpoint's copy of `copy` bytes does not fit into the `left` bytes that
/// training leaves; "" if it fits.
std::string why_training_waits(std::int64_t copy, double left);

}  // namespace penstock
