// Products of bf16 matrices with sums in f32. Depth goes in pairs, as the instructions take them.
// Every element of c is one sum in its unit's order (product_unit.h), so results depend on neither
// blocks nor threads; depth is cut at multiples of 16 pairs, where AMX's order allows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/ops/cpu/bf16/amx_scope.h"

namespace penstock::ops::bf16 {

/// Two bf16 that follow each other along a product's depth, the first in the lower half.
using Pair = std::uint32_t __attribute__((may_alias));

/// Columns of a panel. b lies in panels: of each pair of depth kPanel columns side by side, the
/// last panel's filled up with zeros. A matrix that is read transposed as a lies so, too.
inline constexpr std::int64_t kPanel = 64;

/// c [rows, columns] (+)= a·b.
struct PairProduct {
  std::int64_t rows, columns, pairs;
  std::int64_t a_row;        ///< from row to row of a, in pairs; 0: a lies in panels, of its rows
  std::int64_t a_panel = 0;  ///< from panel to panel of a, in pairs, where it lies in panels
  std::int64_t b_panel;      ///< from panel to panel of b, in pairs
  std::int64_t c_row;        ///< from row to row of c, in floats
  bool accumulate = false;   ///< c += instead of c =
};

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
