#include "penstock/train/step/product_precision.h"

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/ops/machine/product_unit.h"

namespace penstock {

void prepare_products(const ProductSettings& settings) {
  if (settings.precision == ops::ProductPrecision::fp32) return;
  PENSTOCK_CHECK(settings.emulate || ops::processor_has_bf16(), settings.precision_key,
                 " = 'bf16': this processor has neither AMX nor AVX512-BF16; use fp32, or set ",
                 settings.emulate_key,
                 " = true (the bits of AVX512-BF16, several times slower than fp32)");
  // Never switched off: another trainer of this process may need the emulation.
  if (settings.emulate) ops::emulate_bf16(true);
}

void prepare_products(const Recipe& recipe) {
  if (!recipe.run.on_cpu()) return;
  prepare_products({.precision = recipe.train.precision,
                    .emulate = recipe.run.emulate_bf16,
                    .precision_key = "train.precision",
                    .emulate_key = "run.emulate_bf16"});
}

void record_product_unit(ops::ProductPrecision precision, nlohmann::json& trainer) {
  const auto unit = ops::product_unit();
  if (precision == ops::ProductPrecision::bf16 && unit)
    trainer["product_unit"] = ops::order_of_sums(*unit);
}

std::string product_unit_note(const nlohmann::json& trainer) {
  const auto unit = ops::product_unit();
  const std::string before = trainer.value("product_unit", "");
  if (before.empty() || !unit || before == ops::order_of_sums(*unit)) return "";
  return concat("bf16 products were added up in the order of ", before,
                " so far, and are in that of ", ops::order_of_sums(*unit),
                " from here on: other last bits, no larger roundings");
}

}  // namespace penstock
