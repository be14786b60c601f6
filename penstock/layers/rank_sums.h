// Where ranks divide a layer's products between them: what they take apart and bring together, with
// the gradient of each. Sums are the same bits on all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "penstock/dist/group.h"

namespace penstock {

/// x, which all ranks have alike and each uses for its part.
/// Gradient: the sum over the ranks, on each. With one rank nothing is done.
at::Tensor shared_by_ranks(const at::Tensor& x, const dist::ProcessGroup& group);

/// Σ over ranks of x, the same on each.  Gradient: that of the sum, which all ranks have alike.
at::Tensor sum_of_ranks(const at::Tensor& x, const dist::ProcessGroup& group);

}  // namespace penstock
