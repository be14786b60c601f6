// Exchanges of named tensors between the processes of a run: from a checkpoint to all ranks, and
// from all ranks into a checkpoint.
#pragma once

#include <vector>

#include "penstock/dist/group.h"
#include "penstock/models/formats/torch_safetensors.h"

namespace penstock {

/// The root's tensors with their names, on every rank, on the CPU. The root gets its own tensors.
TensorMap broadcast_tensors(const dist::ProcessGroup& group, const TensorMap& mine, int root = 0);

/// Sums the ranks' tensors in place, in the order of the ranks. All tensors are sent together.
/// REQUIRES: the tensors are contiguous, have one dtype, and have the same sizes on all ranks.
void sum_tensors(const dist::ProcessGroup& group, const std::vector<at::Tensor>& tensors);

/// The tensors of all ranks together. REQUIRES: no name on two ranks.
TensorMap gather_tensors(const dist::ProcessGroup& group, const TensorMap& mine);

}  // namespace penstock
