// Products of bf16 matrices with sums in f32. Every element of c is one sum in the unit's order
// (product_unit.h), so results depend on neither blocks nor threads. Depth is cut at multiples of
// 16 pairs, where AMX's order allows a cut. pair_product.h describes the layout of operands.
#pragma once

#include <optional>
#include <string>

#include "penstock/ops/cpu/bf16/amx_scope.h"
#include "penstock/ops/cpu/bf16/pair_product.h"

namespace penstock::ops::bf16 {

/// Why no kernel here runs on this processor, or "".
std::string missing();

/// While the object lives, the products of the calling thread share one configuration of AMX's
/// tiles. Without it, each product configures the tiles, which takes some 55 ns. No other code that
/// uses tiles may run meanwhile.
class ProductBatch {
 public:
  ProductBatch();

 private:
  std::optional<AmxScope> amx_;
};

/// Computes one product on the calling thread, with this process's unit. Operands may be unaligned.
/// REQUIRES: missing() is "".
void multiply(const PairProduct& product, const Pair* a, const Pair* b, float* c);

}  // namespace penstock::ops::bf16
