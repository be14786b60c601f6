// The expert feed-forward's small products, by panel width and block width. They are compiled
// before the threads start. In the names of expert_layout.h, row-major:
//   up    in  [panel, w]  = W_in  [panel, d]  · x  [d, w]
//   down  y   [d, w]     += W_out [d, panel]  · h  [panel, w]
//   back  p   [panel, w]  = W_outᵀ            · dy [d, w]
//   dx    dx  [d, w]     += W_inᵀ             · di [panel, w]
//   dw    dW  [panel, d] += tiles [panel, n]  · rows [n, d], n rows of a chunk of blocks
#pragma once

#include <array>
#include <optional>

#include "penstock/ops/cpu/xsmm/expert_layout.h"
#include "penstock/ops/cpu/xsmm/product.h"

namespace penstock::ops::xsmm {

/// Products of one panel width and one block width. In an array, [0] overwrites and [1] adds.
struct TileProducts {
  std::optional<Product> up, back;
  std::array<std::optional<Product>, 2> down, dx;
};

class ExpertProducts {
 public:
  /// Compiles the products that the blocks of this problem need.
  ExpertProducts(const Operands& operands, bool forward, bool backward);
  /// The products of a panel `panel` wide and a block `width` wide.
  const TileProducts& at(std::int64_t panel, std::int64_t width) const {
    return products_[panel == kPanel ? 0 : 1][width / kBlockStep];
  }
  /// The product of the weight gradient, over the padded rows of a chunk.
  const Product& weights(std::int64_t panel, std::int64_t rows, bool add) const {
    return *weights_[panel == kPanel ? 0 : 1][rows / kBlockStep][add];
  }

 private:
  void compile_weights(std::int64_t panel, std::int64_t rows, std::int64_t width);

  std::array<std::array<TileProducts, kBlock / kBlockStep + 1>, 2> products_;
  std::array<std::array<std::array<std::optional<Product>, 2>, kBackwardRows / kBlockStep + 1>, 2>
      weights_;
};

}  // namespace penstock::ops::xsmm
