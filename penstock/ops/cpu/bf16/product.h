// Products of bf16 matrices with sums in f32. Every element of c is one sum in its unit's order
// (product_unit.h), so results depend on neither blocks nor threads; depth is cut at multiples of
// 16 pairs, where AMX's order allows it. How operands lie is pair_product.h's.
#pragma once

#include <optional>
#include <string>

#include "penstock/ops/cpu/bf16/amx_scope.h"
#include "penstock/ops/cpu/bf16/pair_product.h"

namespace penstock::ops::bf16 {

/// Why no kernel here runs on this processor, or "".
std::string missing();

/// While it lives, the products of the calling thread share what each would set up by itself: the
/// configuration of AMX's tiles, some 55 ns. No other code that uses tiles may run meanwhile.
class ProductBatch {
 public:
  ProductBatch();

 private:
  std::optional<AmxScope> amx_;
};

/// One product on the calling thread, by this process's unit.  REQUIRES: missing() is "".
/// Operands may be unaligned.
void multiply(const PairProduct& product, const Pair* a, const Pair* b, float* c);

}  // namespace penstock::ops::bf16
