// The squared coefficient of variation: the loss of noisy top-k gating.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock {

/// CV²(x) = var(x) / (mean(x)² + 1e-10), with the unbiased variance; 0 for one entry.
/// @param x [E].  @return scalar.  Gradient: x.
/// Source: Shazeer et al., arXiv:1701.06538, Eq. 7, and the 1e-10 of their code.
at::Tensor squared_variation(const at::Tensor& x);

}  // namespace penstock
