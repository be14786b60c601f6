// Checks of operands for several operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>

#include "penstock/ops/machine/precision.h"

namespace penstock::ops {

/// Throws Error unless every index is in [0, bound). The error names the first index that is not.
/// REQUIRES: i64.  Cost: one sweep; on a device other than the CPU it waits for the device.
void check_index_range(const at::Tensor& index, std::int64_t bound, const char* op,
                       const char* what);

/// Throws Error unless all defined tensors are f32 or all f64, on one device.
void check_same_kind(std::initializer_list<at::Tensor> tensors, const char* op);

namespace cpu {
/// Returns why the CPU's f32 kernels do not take these operands, or "". Ignores undefined operands.
std::string declines(std::initializer_list<at::Tensor> operands);
/// The same; also declines if the products are to be in bf16.
std::string declines(std::initializer_list<at::Tensor> operands, ProductPrecision products);
}  // namespace cpu

}  // namespace penstock::ops
