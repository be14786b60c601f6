// Compares two orders in which a large f32 product reads its operands. libxsmm's order has blocks
// of 256 columns and reads a block of b from the second-level cache for every six rows. The other
// order has AVX-512 tiles that keep a panel of b in the first-level cache over all rows, with and
// without prefetch of c's next rows. Twelve sets of operands alternate, so that operands come from
// memory. The time is the processor time of one thread. This measurement decided that the linear
// operator keeps libxsmm's order (docs/performance.md).
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#include "penstock/ops/cpu/xsmm/product.h"

namespace {

#define AVX512 __attribute__((target("avx512f,prfchw")))

using penstock::ops::xsmm::compile;
using penstock::ops::xsmm::Product;

constexpr std::int64_t kDepth = 256, kBlock = 256, kPanel = 64, kRows = 6, kCopies = 12;

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Sizes {
  std::int64_t rows, columns, depth;
};

/// c [n ≤ 6, 64] (+)= a·b, where b is a panel [256, 64].
template <int n, bool ahead>
AVX512 void tile(const Sizes& s, bool add, const float* a, const float* b, float* c) {
  __m512 sum[n][4];
#pragma GCC unroll 8
  for (int i = 0; i < n; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      sum[i][j] = add ? _mm512_loadu_ps(c + i * s.columns + 16 * j) : _mm512_setzero_ps();
  for (std::int64_t k = 0; k < kDepth; ++k, b += kPanel) {
    if (ahead && k % 4 == 0 && k < 4 * 4 * n)
      __builtin_prefetch(c + (n + k / 16) * s.columns + k / 4 % 4 * 16, 1);
    __m512 row[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) row[j] = _mm512_loadu_ps(b + 16 * j);
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) {
      const __m512 x = _mm512_set1_ps(a[i * s.depth + k]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[i][j] = _mm512_fmadd_ps(x, row[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < n; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) _mm512_storeu_ps(c + i * s.columns + 16 * j, sum[i][j]);
}

/// The product with b in panels of 64 columns.
template <bool ahead>
void by_tiles(const Sizes& s, const float* a, const float* b, float* c) {
  constexpr std::int64_t kTaskRows = 32 * kRows;
  for (std::int64_t row = 0; row < s.rows; row += kTaskRows)
    for (std::int64_t block = 0; block < s.columns; block += kBlock)
      for (std::int64_t k = 0; k < s.depth; k += kDepth)
        for (std::int64_t j = block; j < block + kBlock; j += kPanel) {
          const float* panel = b + j * s.depth + k * kPanel;
          const std::int64_t end = std::min(row + kTaskRows, s.rows);
          std::int64_t i = row;
          for (; i + kRows <= end; i += kRows)
            tile<kRows, ahead>(s, k > 0, a + i * s.depth + k, panel, c + i * s.columns + j);
          for (; i < end; ++i)
            tile<1, ahead>(s, k > 0, a + i * s.depth + k, panel, c + i * s.columns + j);
        }
}

/// The product with b in panels of 256 columns.
void by_blocks(const Sizes& s, const float* a, const float* b, float* c) {
  const auto product = [&](bool add) {
    return compile({.rows = kBlock,
                    .columns = kBlock,
                    .depth = kDepth,
                    .a_stride = s.depth,
                    .b_stride = kBlock,
                    .c_stride = s.columns,
                    .accumulate = add});
  };
  const Product first = product(false), next = product(true);
  for (std::int64_t row = 0; row < s.rows; row += kBlock)
    for (std::int64_t block = 0; block < s.columns; block += kBlock)
      for (std::int64_t k = 0; k < s.depth; k += kDepth)
        (k > 0 ? next : first)(a + row * s.depth + k, b + block * s.depth + k * kBlock,
                               c + row * s.columns + block);
}

template <class Run>
double gflops(const Sizes& s, const Run& run) {
  const std::vector<float> b(s.columns * s.depth, 0.5f);
  std::vector<float> a(kCopies * s.rows * s.depth, 0.5f);
  std::vector<float> c(kCopies * s.rows * s.columns);
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < 3 * kCopies; ++i) {
    const double start = thread_seconds();
    run(s, a.data() + i % kCopies * s.rows * s.depth, b.data(),
        c.data() + i % kCopies * s.rows * s.columns);
    seconds.push_back(thread_seconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kCopies, seconds.end());
  return 2e-9 * static_cast<double>(s.rows * s.columns * s.depth) / seconds[kCopies];
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx512f") || !penstock::ops::xsmm::supported()) {
    std::puts("this processor has no AVX-512, or libxsmm is missing");
    return 0;
  }
  std::puts("GFLOP/s of one thread: libxsmm's blocks, tiles, tiles that prefetch c");
  for (const Sizes& s : {Sizes{4096, 2048, 256}, Sizes{4096, 256, 1024}, Sizes{4096, 256, 2048}})
    std::printf("rows %ld, columns %ld, depth %ld: %.0f, %.0f, %.0f\n", s.rows, s.columns, s.depth,
                gflops(s, by_blocks), gflops(s, by_tiles<false>), gflops(s, by_tiles<true>));
}
