// What all bf16 kernels ask of a problem.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "penstock/ops/cpu/bf16/product.h"

namespace penstock::ops::bf16 {

/// Why a product with this left operand is none of these kernels', or "".
inline std::string declines(const at::Tensor& operand) {
  if (!operand.is_cpu()) return "not on the CPU";
  return operand.scalar_type() != at::kBFloat16 ? "not bf16" : missing();
}

}  // namespace penstock::ops::bf16
