#include "penstock/ops/cpu/xsmm/outer_product.h"

#include <ATen/ATen.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"
#include "penstock/ops/cpu/xsmm/product.h"

namespace penstock::ops::xsmm {
namespace {

constexpr std::int64_t kDepth = 256;           // depth of a block
constexpr std::int64_t kPanel = 64;            // columns of a copied panel
constexpr std::int64_t kColumns = 4 * kPanel;  // columns of a task
constexpr std::int64_t kMostRows = 192;        // the most rows of a task
/// The row stride of a copied block. With it, rows begin in different sets of the cache.
constexpr std::int64_t kCopyStride = kMostRows + 16;
/// The fewest rows of c for which enough blocks read a copy in panels.
constexpr std::int64_t kFewestRowsToCopy = 1024;

/// x [depth, columns] in panels [depth, kPanel], the last panel padded with zeros. In place, the
/// rows of a panel would share a few cache sets where the width of x is a power of two.
at::Tensor panels_of(const at::Tensor& x) {
  const std::int64_t depth = x.size(0), columns = x.size(1),
                     panels = cpu::divide_up(columns, kPanel);
  at::Tensor result = at::empty({panels, depth, kPanel}, x.options());
  const float* from = x.data_ptr<float>();
  float* to = result.data_ptr<float>();
  cpu::parallel_ranges(depth, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t count = std::min(kPanel, columns - p * kPanel);
      for (std::int64_t k = begin; k < end; ++k) {
        float* const row = to + (p * depth + k) * kPanel;
        std::memcpy(row, from + k * columns + p * kPanel, count * sizeof(float));
        std::fill(row + count, row + kPanel, 0.0f);
      }
    }
  });
  return result;
}

/// The products of full and last blocks: [last rows][last depth][accumulate].
class BlockProducts {
 public:
  BlockProducts(std::int64_t rows, std::int64_t block, std::int64_t depth, std::int64_t panel)
      : block_(block) {
    for (int i = 0; i < 8; ++i) {
      const std::int64_t n = i & 1 ? rows % block : std::min(block, rows);
      const std::int64_t k = i & 2 ? depth % kDepth : std::min(kDepth, depth);
      if (n == 0 || k == 0) continue;
      products_[i] = compile({.rows = n,
                              .columns = panel,
                              .depth = k,
                              .a_stride = kCopyStride,
                              .b_stride = panel,
                              .c_stride = kColumns,
                              .transpose_a = true,
                              .accumulate = i >= 4});
    }
  }
  const Product& at(std::int64_t rows, std::int64_t depth, bool accumulate) const {
    return *products_[(rows < block_) | (depth < kDepth) << 1 | accumulate << 2];
  }

 private:
  std::int64_t block_;
  std::array<std::optional<Product>, 8> products_;
};

/// c [n, m] = aᵀ·b or its transpose [m, n], block by block. A block's sums stay in a tile of the
/// thread's scratch until they are complete.
struct Blocks {
  std::int64_t rows, columns, depth, block, panel;
  const BlockProducts& products;
  const float *a, *panels;
  bool transposed;  ///< c is [columns, rows]
  float* c;

  static constexpr std::int64_t kScratch = kDepth * kCopyStride + kMostRows * kColumns;

  void run(std::int64_t row, std::int64_t column, float* scratch) const {
    float* const sums = scratch + kDepth * kCopyStride;
    const std::int64_t n = std::min(block, rows - row), m = std::min(kColumns, columns - column);
    for (std::int64_t k = 0; k < depth; k += kDepth) {
      const std::int64_t steps = std::min(kDepth, depth - k);
      for (std::int64_t i = 0; i < steps; ++i)
        std::memcpy(scratch + i * kCopyStride, a + (k + i) * rows + row, n * sizeof(float));
      const Product& product = products.at(n, steps, k > 0);
      for (std::int64_t j = 0; j < m; j += panel)
        product(scratch, panels + (column + j) * depth + k * panel, sums + j);
    }
    if (transposed)
      cpu::transpose(n, m, sums, kColumns, c + column * rows + row, rows);
    else
      for (std::int64_t i = 0; i < n; ++i)
        std::memcpy(c + (row + i) * columns + column, sums + i * kColumns, m * sizeof(float));
  }
};

}  // namespace

at::Tensor outer_product(const at::Tensor& a, const at::Tensor& b) {
  // Every block of the wider operand reads all of the narrower one.
  const bool transposed = a.size(1) < b.size(1);
  const at::Tensor& left = transposed ? b : a;
  const at::Tensor& narrow = transposed ? a : b;
  // A copy pays where enough blocks read it.
  const bool copied = left.size(1) >= kFewestRowsToCopy || narrow.size(1) > kColumns;
  const std::int64_t panel = copied ? kPanel : narrow.size(1);
  const at::Tensor panels = copied ? panels_of(narrow) : narrow;
  const std::int64_t depth = a.size(0), rows = left.size(1),
                     columns = transposed ? a.size(1) : b.size(1);
  at::Tensor c = at::empty({a.size(1), b.size(1)}, a.options());
  const std::int64_t column_blocks = cpu::divide_up(columns, kColumns);
  const std::int64_t block = block_rows(kMostRows, rows, column_blocks);
  const BlockProducts products(rows, block, depth, panel);
  const Blocks blocks{.rows = rows,
                      .columns = columns,
                      .depth = depth,
                      .block = block,
                      .panel = panel,
                      .products = products,
                      .a = left.data_ptr<float>(),
                      .panels = panels.data_ptr<float>(),
                      .transposed = transposed,
                      .c = c.data_ptr<float>()};
  const at::Tensor scratch = at::empty({omp_get_max_threads(), Blocks::kScratch}, a.options());
  // Neighbouring tasks share rows, which are then still in cache.
  cpu::parallel_ranges(
      cpu::divide_up(rows, block) * column_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        float* const mine = scratch.data_ptr<float>() + omp_get_thread_num() * Blocks::kScratch;
        for (std::int64_t t = begin; t < end; ++t)
          blocks.run(t / column_blocks * block, t % column_blocks * kColumns, mine);
      });
  return c;
}

}  // namespace penstock::ops::xsmm
