// Rounding to bf16 by AVX512-BF16. The values are those of round_lanes (rounding.h), but denormal
// numbers become zero. Every product treats denormal numbers as zero.
#pragma once

#include "penstock/ops/cpu/bf16/product.h"

namespace penstock::ops::bf16 {

struct NativeRounding {
  /// round_row
  void (*row)(std::int64_t n, const float* from, std::uint16_t* to);
  /// pack_row_pair
  void (*pair)(std::int64_t columns, const float* first, const float* second, Pair* to,
               std::int64_t panel);
};
/// Null where the processor does not have AVX512-BF16.
const NativeRounding* native_rounding();

}  // namespace penstock::ops::bf16
