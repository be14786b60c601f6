// The product of two tall matrices over their rows, for a weight's gradient. Every cut depends on
// the shape alone. One task sums each element in order of depth, so results do not depend on the
// number of threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock::ops::xsmm {

/// aᵀ·b [n, m] of a [depth, n] and b [depth, m], f32 and contiguous.
/// REQUIRES: supported() (product.h), sizes > 0.  Cost: 2 · depth · n · m FLOPs; memory for a copy
/// of the narrower operand, and for a block of the other on each thread.
at::Tensor outer_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace penstock::ops::xsmm
