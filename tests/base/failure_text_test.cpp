// The one-line messages for exceptions that other libraries throw.
#include "penstock/base/failure_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace penstock {
namespace {

TEST(FailureText, IsTheFirstLine) {
  EXPECT_EQ(failure_text(std::runtime_error("broken\nframe #0\nframe #1")), "broken");
  EXPECT_EQ(failure_text(std::runtime_error("")), "failed without a word");
}

TEST(FailureText, SaysWhatMemoryWasAskedFor) {
  const std::runtime_error allocator(
      "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: "
      "you "
      "tried to allocate 20480000 bytes. Error code 12 (Cannot allocate memory)\nframe #0");
  EXPECT_EQ(failure_text(allocator), "memory ran out: 20480000 bytes more were asked for");
  EXPECT_TRUE(memory_ran_out(allocator));
  EXPECT_EQ(failure_text(std::bad_alloc()), "memory ran out");
  const std::system_error mapping(ENOMEM, std::generic_category(), "memory to share");
  EXPECT_EQ(failure_text(mapping), "memory ran out");
  const std::system_error starting(EAGAIN, std::generic_category());
  EXPECT_TRUE(failure_text(starting).starts_with("memory ran out, or the number of threads "));
  EXPECT_TRUE(memory_ran_out(starting));
  EXPECT_FALSE(memory_ran_out(std::system_error(ENOENT, std::generic_category(), "its files")));
  EXPECT_FALSE(memory_ran_out(std::runtime_error("broken")));
}

}  // namespace
}  // namespace penstock
