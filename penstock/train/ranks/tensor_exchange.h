// Named tensors between the processes of a run: what a checkpoint held goes to all ranks, what each
// rank carries on comes together for a checkpoint.
#pragma once

#include <vector>

#include "penstock/dist/group.h"
#include "penstock/models/formats/torch_safetensors.h"

namespace penstock {

/// The root's tensors, names and shapes included; on the root its own. CPU.
TensorMap broadcast_tensors(const dist::ProcessGroup& group, const TensorMap& mine, int root = 0);

/// Adds up tensors in place, in the order of the ranks. They travel together.
/// REQUIRES: of one type; of the same sizes on all ranks, and contiguous.
void sum_tensors(const dist::ProcessGroup& group, const std::vector<at::Tensor>& tensors);

/// The tensors of all ranks together. REQUIRES: no name on two ranks.
TensorMap gather_tensors(const dist::ProcessGroup& group, const TensorMap& mine);

}  // namespace penstock
