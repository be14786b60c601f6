// Work divided over threads: every item is visited once, and denormal numbers are zeros within the
// work and nowhere else.
#include "penstock/ops/cpu/parallel.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "penstock/base/threads.h"
#include "penstock/ops/dispatch.h"
#include "tests/base/error_of.h"

namespace penstock::parallel_test {
namespace {

volatile const float kSmallest = std::numeric_limits<float>::denorm_min();

TEST(Parallel, VisitsEveryItemOnce) {
  std::vector<int> ranges(1000), tasks(1000), neighbours(1000);
  ops::cpu::parallel_ranges(1000, 7, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++ranges[static_cast<std::size_t>(i)];
  });
  ops::cpu::parallel_tasks(1000, [&](std::int64_t i, int thread) {
    tasks[static_cast<std::size_t>(i)] += thread < omp_get_max_threads() ? 1 : 100;
  });
  ops::cpu::parallel_neighbours(1000,
                                [&](std::int64_t i) { ++neighbours[static_cast<std::size_t>(i)]; });
  ops::cpu::parallel_neighbours(0, [](std::int64_t) { FAIL() << "there is no item"; });
  EXPECT_EQ(ranges, std::vector<int>(1000, 1));
  EXPECT_EQ(tasks, std::vector<int>(1000, 1));
  EXPECT_EQ(neighbours, std::vector<int>(1000, 1));
}

TEST(Parallel, RefusesThreadsThatNoMachineBears) {
  testing::expect_error([&] { ops::set_threads(4096 * 8); }, {"run.threads"});
  EXPECT_EQ(ops::set_threads(0), physical_cores());
}

#if defined(__SSE2__) || defined(__aarch64__)
TEST(Parallel, DenormalNumbersAreZeroInTheWorkAndNowhereElse) {
  std::vector<float> sums(64, -1), products(64, -1), halves(64, -1);
  ops::cpu::parallel_ranges(64, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      sums[static_cast<std::size_t>(i)] = kSmallest + kSmallest;
  });
  ops::cpu::parallel_tasks(
      64, [&](std::int64_t i, int) { products[static_cast<std::size_t>(i)] = kSmallest * 3.0f; });
  ops::cpu::parallel_neighbours(
      64, [&](std::int64_t i) { halves[static_cast<std::size_t>(i)] = kSmallest + kSmallest; });
  EXPECT_EQ(halves, std::vector<float>(64, 0));
  EXPECT_EQ(sums, std::vector<float>(64, 0));
  EXPECT_EQ(products, std::vector<float>(64, 0));
  EXPECT_GT(kSmallest + kSmallest, 0);
}
#endif

}  // namespace
}  // namespace penstock::parallel_test
