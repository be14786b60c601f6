// How the operands of bf16 products lie in memory. Depth goes in pairs, as the instructions take
// them. What computes the products is product.h's.
#pragma once

#include <cstdint>

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

}  // namespace penstock::ops::bf16
