// Keeping freed memory: a block that is allocated again brings no new pages.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/types.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "penstock/ops/dispatch.h"

namespace penstock::memory_test {
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

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int heaps() {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const file = open_memstream(&text, &size);
  EXPECT_EQ(malloc_info(0, file), 0);
  std::fclose(file);
  const std::string said(text, size);
  std::free(text);
  int out = 0;
  for (std::size_t at = 0; (at = said.find("<heap nr=", at)) != said.npos; ++at) ++out;
  return out;
}

TEST(Memory, ThreadsMakeNoHeapsOfTheirOwn) {
  ops::keep_freed_memory();
  const int before = heaps();
  constexpr int kThreads = 64;  // more than the heaps that ended threads may have left
  std::barrier all(kThreads);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      std::vector<char> block(1 << 16);
      all.arrive_and_wait();
    });
  threads.clear();
  EXPECT_EQ(heaps(), before);
}
#endif

}  // namespace
}  // namespace penstock::memory_test
