// Computes the output of every expert of a layer for every token, without a router.
#pragma once

#include <ATen/core/Tensor.h>

#include "penstock/experts/experts.h"

namespace penstock {

/// FFN_e(h_t) for all e and t.
/// @param hidden [N, d].  @return [E, N, d], same dtype; differentiable
at::Tensor all_outputs(Experts& experts, std::int64_t count, const at::Tensor& hidden);

}  // namespace penstock
