#include "penstock/ops/machine/product_unit.h"

#include <atomic>

#include "penstock/base/error.h"
#include "penstock/ops/cpu/bf16/amx_scope.h"

namespace penstock::ops {
namespace {

std::atomic<std::optional<ProductUnit>> chosen;

bool has_avx512() {
#if defined(__x86_64__)
  static const bool has =
      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
  return has;
#else
  return false;
#endif
}

}  // namespace

std::string_view order_of_sums(ProductUnit unit) {
  const bool amx = unit == ProductUnit::amx || unit == ProductUnit::emulated_amx;
  return words(unit)[static_cast<std::size_t>(amx ? ProductUnit::amx : ProductUnit::avx512)];
}

bool available(ProductUnit unit) {
  switch (unit) {
    case ProductUnit::avx512:
      return has_avx512();
    case ProductUnit::amx:
      return bf16::has_amx();
    case ProductUnit::emulated_avx512:
    case ProductUnit::emulated_amx:
      return true;
  }
  return false;
}

std::optional<ProductUnit> product_unit() {
  if (const auto unit = chosen.load(std::memory_order_relaxed)) return unit;
  for (const ProductUnit unit : {ProductUnit::amx, ProductUnit::avx512})
    if (available(unit)) return unit;
  return std::nullopt;
}

void choose_product_unit(std::optional<ProductUnit> unit) {
  PENSTOCK_ASSERT(!unit || available(*unit), "the unit is not this processor's");
  chosen = unit;
}

}  // namespace penstock::ops
