// Named tensors between the processes of a run: what a checkpoint held goes to all ranks, what each
// rank carries on comes together for a checkpoint.
#pragma once

#include "penstock/dist/group.h"
#include "penstock/models/tensor_files.h"

namespace penstock {

/// The root's tensors, names and shapes included; on the root its own. CPU.
TensorMap broadcast_tensors(const dist::ProcessGroup& group, const TensorMap& mine, int root = 0);

/// The tensors of all ranks together. REQUIRES: no name on two ranks.
TensorMap gather_tensors(const dist::ProcessGroup& group, const TensorMap& mine);

}  // namespace penstock
