// Keeps weights in shared memory that all ranks of a machine read. It exchanges nothing: each rank
// writes the spans that it updates, and a barrier tells the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// Allocates memory for these weights that all ranks of the group share. Every rank calls it.
/// @param weights  REQUIRES: the same shapes on all ranks
/// @return undefined if the ranks cannot share memory, or if a weight is not contiguous, not on a
///   CPU or not alone in its storage
at::Tensor shared_memory_for(const dist::ProcessGroup& group,
                             const std::vector<at::Tensor>& weights);

/// Moves the weights into `memory` and keeps their values. Tensors that share the weights' storage
/// move too. Every rank calls it.
/// @param weights  REQUIRES: the same values on all ranks
/// @param memory   of shared_memory_for()
void move_weights(const dist::ProcessGroup& group, const std::vector<at::Tensor>& weights,
                  const at::Tensor& memory);

/// Whether move_weights() moved this weight.
bool is_shared(const at::Tensor& weight);

}  // namespace penstock
