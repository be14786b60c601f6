// The conditions that all bf16 kernels set for a problem.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "penstock/ops/cpu/bf16/product.h"

namespace penstock::ops::bf16 {

/// Why these kernels decline a product of left operand `operand` with `weights`, or "".
inline std::string declines(const at::Tensor& operand, const at::Tensor& weights) {
  if (!operand.is_cpu()) return "not on the CPU";
  if (operand.scalar_type() != at::kBFloat16) return "not bf16";
  return weights.scalar_type() != at::kFloat ? "weights not f32" : missing();
}

}  // namespace penstock::ops::bf16
