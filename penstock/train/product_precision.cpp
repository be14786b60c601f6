#include "penstock/train/product_precision.h"

#include "penstock/base/error.h"

namespace penstock {

void prepare_products(const ProductSettings& settings) {
  if (settings.precision == ops::ProductPrecision::fp32) return;
  PENSTOCK_CHECK(settings.emulate || ops::processor_has_bf16(), settings.precision_key,
                 " = 'bf16': this processor has no AVX512-BF16; use fp32, or set ",
                 settings.emulate_key, " = true (the same bits, several times slower than fp32)");
  // Only ever on: another trainer of this process may need it.
  if (settings.emulate) ops::emulate_bf16(true);
}

void prepare_products(const Recipe& recipe) {
  if (recipe.run.device != "cpu") return;
  prepare_products({.precision = recipe.train.precision,
                    .emulate = recipe.run.emulate_bf16,
                    .precision_key = "train.precision",
                    .emulate_key = "run.emulate_bf16"});
}

}  // namespace penstock
