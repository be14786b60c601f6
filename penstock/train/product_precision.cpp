#include "penstock/train/product_precision.h"

#include "penstock/base/error.h"

namespace penstock {

void prepare_products(const Recipe& recipe) {
  if (recipe.train.precision == ops::ProductPrecision::fp32) return;
  const bool emulate = recipe.run.emulate_bf16;
  PENSTOCK_CHECK(emulate || recipe.run.device != "cpu" || ops::processor_has_bf16(),
                 "train.precision = 'bf16': this processor has no AVX512-BF16; use fp32, or set "
                 "run.emulate_bf16 = true (the same bits, several times slower than fp32)");
  // Only ever on: another trainer of this process may need it.
  if (emulate) ops::emulate_bf16(true);
}

}  // namespace penstock
