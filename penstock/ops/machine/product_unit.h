// The unit that multiplies bf16 on this processor. Each unit sums in its own order, so the last
// bits of a product depend on the unit. Each unit has an emulation with the same bits.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace penstock::ops {

/// avx512: VDPBF16PS. An f32 fused multiply-add for each product, the second of a pair first.
/// amx: TDPBF16PS. Over 32 values of depth, which are 16 pairs, it adds up the first products of
/// the pairs, and separately the second products, each from zero by fused multiply-adds. It adds
/// the sum of both to the result.
/// The emulations compute the same bits with f32 instructions, on any processor, several times
/// slower than fp32.
enum class ProductUnit { avx512, amx, emulated_avx512, emulated_amx };
constexpr std::array<std::string_view, 4> words(ProductUnit) {
  return {"avx512-bf16", "amx-bf16", "avx512-bf16 emulated", "amx-bf16 emulated"};
}

/// The order of the unit's sums: "avx512-bf16" or "amx-bf16". The bits depend on nothing else.
std::string_view order_of_sums(ProductUnit unit);

/// Whether this process can use the unit.
bool available(ProductUnit unit);

/// The unit of this process's bf16 products: the chosen one, else AMX, else AVX512-BF16; none if
/// the processor has neither.
std::optional<ProductUnit> product_unit();

/// Chooses the unit of the whole process; std::nullopt restores the default. No product may run
/// during the call.  REQUIRES: available(*unit)
void choose_product_unit(std::optional<ProductUnit> unit);

}  // namespace penstock::ops
