// Speed of the matrix products of the experts' backward pass alone, at the sizes of a task (d =
// 256, a panel of 128 columns of f, blocks of 64 rows). It measures libxsmm when the operand that
// changes from call to call comes from the second-level cache, the third-level cache or memory. The
// whole pass is slower than its products, because it also gathers rows, computes activations and
// reads the plan. Each of N threads uses its own memory.
//
//   build/release/bin/expert_products [threads, 1]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "penstock/ops/cpu/xsmm/product.h"
#include "penstock/ops/machine/machine.h"

namespace {

using penstock::ops::xsmm::compile;
using penstock::ops::xsmm::Product;

constexpr std::int64_t kWidth = 256, kPanel = 128, kBlock = 64, kRows = 128, kInner = 1024;
constexpr std::int64_t kTile = kPanel * kWidth;  // floats of a panel's weights or gradients

/// A product, and the operand that changes from tile to tile.
struct Row {
  const char* name;
  std::int64_t columns, depth, rows;
  Product product;
  bool walks_result;  ///< the result changes per tile; else the left operand
};

std::vector<Row> rows() {
  const auto weights = [](bool add) {
    return compile({.rows = kPanel,
                    .columns = kWidth,
                    .depth = kRows,
                    .a_stride = kRows,
                    .b_stride = kWidth,
                    .c_stride = kWidth,
                    .accumulate = add});
  };
  return {{"weights' gradients, first", kWidth, kRows, kPanel, weights(false), true},
          {"weights' gradients, added", kWidth, kRows, kPanel, weights(true), true},
          {"rows' gradients", kBlock, kPanel, kWidth,
           compile({.rows = kWidth,
                    .columns = kBlock,
                    .depth = kPanel,
                    .a_stride = kWidth,
                    .b_stride = kRows,
                    .c_stride = kBlock,
                    .transpose_a = true,
                    .accumulate = true}),
           false},
          {"back through w_out in place", kBlock, kWidth, kPanel,
           compile({.rows = kPanel,
                    .columns = kBlock,
                    .depth = kWidth,
                    .a_stride = kInner,
                    .b_stride = kBlock,
                    .c_stride = kBlock,
                    .transpose_a = true}),
           false}};
}

/// The FLOP/s of one thread over `tiles` tiles: the median of several rounds.
double rate(const Row& row, std::int64_t tiles) {
  std::vector<float> walked(std::max(tiles * kTile, kInner * kWidth), 0.01f), a(2 * kTile, 0.01f),
      b(2 * kTile, 0.01f), c(2 * kTile);
  const bool strided = row.rows == kPanel && !row.walks_result;  // panels are adjacent columns
  const auto place = [&](std::int64_t i) {
    return walked.data() + (strided ? i / 8 * kInner * kWidth + i % 8 * kPanel : i * kTile);
  };
  const std::int64_t used = strided ? std::max<std::int64_t>(tiles / 8 * 8, 8) : tiles;
  const std::int64_t repeat = std::max<std::int64_t>(1, 512 / used);
  std::vector<double> seconds;
  for (int round = 0; round < 9; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < repeat * used; ++i)
      if (row.walks_result)
        row.product(a.data(), b.data(), place(i % used));
      else
        row.product(place(i % used), b.data(), c.data());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + 4, seconds.end());
  return 2.0 * static_cast<double>(row.rows * row.columns * row.depth * repeat * used) / seconds[4];
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  if (!penstock::ops::xsmm::supported()) return std::puts("libxsmm is missing"), 0;
  const double peak = penstock::ops::measure_peak_flops(threads, 0.5) / threads;
  std::printf("%d threads; share of one thread's peak (%.0f GFLOP/s), for the slowest thread\n",
              threads, peak * 1e-9);
  std::printf("%-30s %9s %9s %9s %9s\n", "bytes of one operand", "0.5 MB", "4 MB", "16 MB",
              "96 MB");
  for (const Row& row : rows()) {
    std::printf("%-30s", row.name);
    for (const std::int64_t tiles : {4, 32, 128, 768}) {
      std::vector<double> rates(threads);
      std::vector<std::thread> side_by_side;
      for (double& mine : rates)
        side_by_side.emplace_back([&row, &mine, tiles] { mine = rate(row, tiles); });
      for (std::thread& thread : side_by_side) thread.join();
      std::printf("%8.0f %%", 100 * *std::ranges::min_element(rates) / peak);
    }
    std::puts("");
  }
}
