#include "penstock/ops/cpu/xsmm/blocked_product.h"

#include <algorithm>
#include <array>
#include <optional>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/xsmm/product.h"

namespace penstock::ops::xsmm {
namespace {

// Depth of a block of b: kDepth × kColumns floats are an eighth of 2 MB of L2.
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kMostRows = 256;  // the most rows of a task

/// The products of full and last blocks: [last rows][last columns][last depth][accumulate].
class BlockProducts {
 public:
  BlockProducts(const BlockedShape& shape, std::int64_t block)
      : sizes_{std::array{block, shape.rows % block},
               std::array{kColumns, shape.columns % kColumns},
               std::array{kDepth, shape.depth % kDepth}},
        counts_{shape.rows, shape.columns, shape.depth} {
    for (int i = 0; i < 16; ++i) {
      const std::int64_t rows = sizes_[0][i & 1], columns = sizes_[1][i >> 1 & 1],
                         depth = sizes_[2][i >> 2 & 1];
      if (rows == 0 || columns == 0 || depth == 0 || rows > shape.rows || columns > shape.columns ||
          depth > shape.depth)
        continue;
      products_[i] = compile({.rows = rows,
                              .columns = columns,
                              .depth = depth,
                              .a_stride = shape.a_stride,
                              .b_stride = columns,
                              .c_stride = shape.c_stride,
                              .accumulate = (i >> 3) != 0});
    }
  }
  /// The product of the block that starts at this row, column and depth.
  const Product& at(std::int64_t row, std::int64_t column, std::int64_t depth,
                    bool accumulate) const {
    return *products_[last(0, row) | last(1, column) << 1 | last(2, depth) << 2 | accumulate << 3];
  }

 private:
  int last(int axis, std::int64_t begin) const {
    return begin + sizes_[axis][0] > counts_[axis] ? 1 : 0;
  }

  std::array<std::array<std::int64_t, 2>, 3> sizes_;
  std::array<std::int64_t, 3> counts_;
  std::array<std::optional<Product>, 16> products_;
};

}  // namespace

void blocked_product(const BlockedShape& shape, const float* a, const float* b, float* c) {
  const std::int64_t column_blocks = (shape.columns + kColumns - 1) / kColumns;
  const std::int64_t block = block_rows(kMostRows, shape.rows, column_blocks);
  const std::int64_t row_blocks = (shape.rows + block - 1) / block;
  const BlockProducts products(shape, block);
  const auto run = [&](std::int64_t row, std::int64_t column) {
    const std::int64_t width = std::min(kColumns, shape.columns - column);
    for (std::int64_t k = 0; k < shape.depth; k += kDepth)
      products.at(row, column, k, shape.accumulate || k > 0)(a + row * shape.a_stride + k,
                                                             b + column * shape.depth + k * width,
                                                             c + row * shape.c_stride + column);
  };
  // Neighbouring tasks share rows, which are then still in cache.
  cpu::parallel_ranges(row_blocks * column_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task)
      run(task / column_blocks * block, task % column_blocks * kColumns);
  });
}

}  // namespace penstock::ops::xsmm
