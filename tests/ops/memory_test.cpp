// Keeping freed memory: a block that is asked for again brings no new pages.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>

#include "penstock/ops/dispatch.h"

namespace penstock {
namespace {

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(Memory, FreedBlocksAreUsedAgain) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "another allocator is in use";
#endif
  ops::keep_freed_memory();
  constexpr std::int64_t kFloats = 64 << 20 >> 2;  // 64 MB: 16384 pages of 4 kB
  at::empty({kFloats}).fill_(1.0f);
  const std::int64_t before = page_faults();
  for (int i = 0; i < 3; ++i) at::empty({kFloats}).fill_(1.0f);
  EXPECT_LT(page_faults() - before, 1000);
}

}  // namespace
}  // namespace penstock
