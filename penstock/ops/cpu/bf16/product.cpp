#include "penstock/ops/cpu/bf16/product.h"

#include <algorithm>

#include "penstock/ops/cpu/bf16/amx_product.h"
#include "penstock/ops/cpu/bf16/tiles.h"
#include "penstock/ops/machine/product_unit.h"

namespace penstock::ops::bf16 {
namespace {

using Tiles = void(const PanelProduct&, const Pair*, const Pair*, float*);

void by_panels(Tiles& run, const PairProduct& product, const Pair* a, const Pair* b, float* c) {
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

}  // namespace

std::string missing() {
  return product_unit() ? "" : "this processor has neither AVX512-BF16 nor AMX-BF16";
}

ProductBatch::ProductBatch() {
  if (product_unit() == ProductUnit::amx) amx_.emplace();
}

void multiply(const PairProduct& product, const Pair* a, const Pair* b, float* c) {
  switch (*product_unit()) {
    case ProductUnit::amx:
      return amx_product(product, a, b, c);
    case ProductUnit::avx512:
      return by_panels(avx512_tiles, product, a, b, c);
    case ProductUnit::emulated_avx512:
      return by_panels(emulated_avx512_tiles, product, a, b, c);
    case ProductUnit::emulated_amx:
      return by_panels(emulated_amx_tiles, product, a, b, c);
  }
}

}  // namespace penstock::ops::bf16
