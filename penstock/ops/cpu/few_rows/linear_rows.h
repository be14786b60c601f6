// The linear operator for a few rows of x, with weights of any type (stored_rows.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "penstock/ops/stored_rows.h"

namespace penstock::ops::cpu {

/// x [R, depth] f32, at most kFewRows; b [rows] f32 or undefined.  @return [R, rows]
at::Tensor few_rows_linear(const at::Tensor& x, const StoredMatrix& w, const at::Tensor& b);

}  // namespace penstock::ops::cpu
