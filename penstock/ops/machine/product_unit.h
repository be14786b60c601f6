// What multiplies bf16 on this processor. The instructions add up in orders of their own, so a
// product's last bits are its unit's; each has an emulation with the same bits.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace penstock::ops {

/// avx512: VDPBF16PS, an f32 fused multiply-add for each product, the second of a pair first.
/// amx: TDPBF16PS; the first and the second products of 32 values of depth are two sums from zero
/// by fused multiply-adds, and the sum of both is added to the result. The emulations compute the
/// same bits by f32 instructions, on any processor, several times slower than fp32.
enum class ProductUnit { avx512, amx, emulated_avx512, emulated_amx };
constexpr std::array<std::string_view, 4> words(ProductUnit) {
  return {"avx512-bf16", "amx-bf16", "avx512-bf16 emulated", "amx-bf16 emulated"};
}

/// Whose order its sums have: "avx512-bf16" or "amx-bf16". The bits depend on nothing else.
std::string_view order_of_sums(ProductUnit unit);

/// Whether this process can compute with it.
bool available(ProductUnit unit);

/// What this process's bf16 products are computed with: the chosen unit, else the faster one of
/// this processor's, AMX; none where there is neither.
std::optional<ProductUnit> product_unit();

/// Chooses for the whole process, whose products should not run meanwhile; std::nullopt chooses
/// none, as at the start.  REQUIRES: available(*unit)
void choose_product_unit(std::optional<ProductUnit> unit);

}  // namespace penstock::ops
