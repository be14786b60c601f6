// The memory layout of the operands of bf16 products. Depth is stored in pairs, as the instructions
// read it. product.h computes the products.
#pragma once

#include <cstdint>

namespace penstock::ops::bf16 {

/// Two bf16 that follow each other along a product's depth, the first in the lower half.
using Pair = std::uint32_t __attribute__((may_alias));

/// Columns of a panel. b is stored in panels: for each pair of depth, a panel has kPanel columns
/// side by side. The last panel is padded with zeros. If a is read transposed, a is stored in
/// panels too.
inline constexpr std::int64_t kPanel = 64;

/// c [rows, columns] (+)= a·b.
struct PairProduct {
  std::int64_t rows, columns, pairs;
  std::int64_t a_row;        ///< from row to row of a, in pairs; 0: a is in panels of its rows
  std::int64_t a_panel = 0;  ///< from panel to panel of a, in pairs, where a is in panels
  std::int64_t b_panel;      ///< from panel to panel of b, in pairs
  std::int64_t c_row;        ///< from row to row of c, in floats
  bool accumulate = false;   ///< c += instead of c =
};

}  // namespace penstock::ops::bf16
