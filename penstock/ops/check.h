// Checks of operands that several operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock::ops {

/// Throws Error unless every index is in [0, bound), naming the first that is not.
/// REQUIRES: i64.  Cost: one sweep; on a device other than the CPU it waits for the device.
void check_index_range(const at::Tensor& index, std::int64_t bound, const char* op, const char* what);

}  // namespace penstock::ops
