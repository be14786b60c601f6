// Sums over the rows of a matrix: a bias's gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock::ops::cpu {

/// Σ over rows of x [R, n] f32, contiguous -> [n]; each column summed by one thread in row order.
at::Tensor column_sums(const at::Tensor& x);

}  // namespace penstock::ops::cpu
