#include "penstock/ops/cpu/bf16/blocked_product.h"

#include <algorithm>

#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::bf16 {
namespace {

constexpr std::int64_t kPairs = 256;    // pairs of depth of a block
constexpr std::int64_t kColumns = 256;  // columns of a task

struct LeftOperand {
  const Pair* data;
  std::int64_t row;    // from row to row; 0: in panels
  std::int64_t panel;  // from panel to panel

  const Pair* at(std::int64_t i, std::int64_t pair) const {
    return row > 0 ? data + i * row + pair : data + i / kPanel * panel + pair * kPanel;
  }
};

/// The largest block of rows that leaves four tasks or more, which a few threads share evenly; else
/// kPanel rows.
std::int64_t block_rows(std::int64_t rows, std::int64_t column_blocks) {
  for (const std::int64_t block : {std::int64_t{256}, std::int64_t{128}})
    if (rows / block * column_blocks >= 4) return block;
  return kPanel;
}

void run(const BlockedProduct& shape, const LeftOperand& a, const Panels& b, float* c) {
  const std::int64_t column_blocks = (shape.columns + kColumns - 1) / kColumns;
  const std::int64_t block = block_rows(shape.rows, column_blocks);
  const std::int64_t row_blocks = (shape.rows + block - 1) / block;
  const std::int64_t pairs = (shape.depth + 1) / 2;
  const auto task = [&](std::int64_t i, std::int64_t j) {
    for (std::int64_t k = 0; k < pairs; k += kPairs)
      multiply({.rows = std::min(block, shape.rows - i),
                .columns = std::min(kColumns, shape.columns - j),
                .pairs = std::min(kPairs, pairs - k),
                .a_row = a.row,
                .a_panel = a.panel,
                .b_panel = b.panel(),
                .c_row = shape.c_row,
                .accumulate = shape.accumulate || k > 0},
               a.at(i, k), b.data() + j / kPanel * b.panel() + k * kPanel, c + i * shape.c_row + j);
  };
  // Neighbouring tasks share rows, which are then still in cache.
  cpu::parallel_ranges(row_blocks * column_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const ProductBatch batch;
    for (std::int64_t t = begin; t < end; ++t)
      task(t / column_blocks * block, t % column_blocks * kColumns);
  });
}

}  // namespace

void blocked_product(const BlockedProduct& shape, const PairRows& a, const Panels& b, float* c) {
  run(shape, {a.data(), a.row, 0}, b, c);
}
void blocked_product(const BlockedProduct& shape, const Panels& a, const Panels& b, float* c) {
  run(shape, {a.data(), 0, a.panel()}, b, c);
}

}  // namespace penstock::ops::bf16
