#include "penstock/ops/cpu/bf16/product.h"

#include <algorithm>

#include "penstock/ops/cpu/bf16/tiles.h"
#include "penstock/ops/precision.h"

namespace penstock::ops::bf16 {

std::string missing() {
  return processor_has_bf16() || emulates_bf16() ? "" : "this processor has no AVX512-BF16";
}

void multiply(const PairProduct& product, const Pair* a, const Pair* b, float* c) {
  const auto run = emulates_bf16() ? emulated_tiles : processor_tiles;
  const bool in_panels = product.a_row == 0;
  const std::int64_t step = in_panels ? kPanel : product.rows;
  for (std::int64_t j = 0; j < product.columns; j += kPanel)
    for (std::int64_t i = 0; i < product.rows; i += step)
      run({.rows = std::min(step, product.rows - i),
           .columns = std::min(kPanel, product.columns - j),
           .pairs = product.pairs,
           .a_row = in_panels ? 1 : product.a_row,
           .a_pair = in_panels ? kPanel : 1,
           .c_row = product.c_row,
           .accumulate = product.accumulate},
          a + i / kPanel * product.a_panel, b + j / kPanel * product.b_panel,
          c + i * product.c_row + j);
}

}  // namespace penstock::ops::bf16
