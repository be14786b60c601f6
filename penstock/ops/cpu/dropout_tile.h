// Dropout of the experts' activations on a transposed tile [columns of f, rows of a block].
#pragma once

#include <cstdint>

#include "penstock/ops/cpu/activation_tile.h"
#include "penstock/ops/dropout.h"

namespace penstock::ops::cpu {

struct TileDropout {
  Dropout dropout;
  bool drops() const { return dropout.p > 0; }
  /// x ⊙= keep / (1 − p). The first `count` rows of the tile are assignments [row, row + count);
  /// the other rows are padding. The tile's first column is column `column` of f.  x [columns,
  /// rows] with `stride` from row to row.  REQUIRES: count ≤ rows ≤ 64.
  void apply(const TileShape& shape, std::int64_t row, std::int64_t count, std::int64_t column,
             std::int64_t stride, float* x) const;
};

}  // namespace penstock::ops::cpu
