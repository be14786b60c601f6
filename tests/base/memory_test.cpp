// Memory limits of control groups and the memory that they leave, on made-up /proc and /sys trees.
#include "penstock/base/memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

class CgroupMemory : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const auto path = root_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::optional<double> limit() const { return cgroup_memory_limit(root_.path()); }
  double available() const { return available_memory_bytes(root_.path()); }
  testing::TempDirectory root_;
};

TEST_F(CgroupMemory, NoneWithoutGroupsOrLimits) {
  EXPECT_FALSE(limit());
  write("proc/self/cgroup", "0::/a/b");
  EXPECT_FALSE(limit());
  write("sys/fs/cgroup/a/b/memory.max", "max");
  EXPECT_FALSE(limit());
}

TEST_F(CgroupMemory, Version2TakesTheSmallestOnTheWayUp) {
  write("proc/self/cgroup", "0::/a/b");
  write("sys/fs/cgroup/a/b/memory.max", "3000");
  EXPECT_EQ(limit(), 3000);
  write("sys/fs/cgroup/a/memory.max", "2000");
  EXPECT_EQ(limit(), 2000);
  write("sys/fs/cgroup/memory.max", "max");
  write("sys/fs/cgroup/c/memory.max", "1000");  // another group's limit
  EXPECT_EQ(limit(), 2000);
}

TEST_F(CgroupMemory, OfAContainerThatSeesItsOwnGroupAsTheTop) {
  write("sys/fs/cgroup/memory.max", "4096");
  write("proc/self/cgroup", "0::/");
  EXPECT_EQ(limit(), 4096);
  write("proc/self/cgroup", "0::/not/visible/here");
  EXPECT_EQ(limit(), 4096);
}

TEST_F(CgroupMemory, Version1AndBothAtOnce) {
  write("proc/self/cgroup", "9:cpu,memory:/a\n8:pids:/b\n0::/");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000");
  write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1");
  EXPECT_EQ(limit(), 5000);
  // Without a limit, the file contains a number larger than any machine's memory.
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_GT(*limit(), 1e18);
  write("sys/fs/cgroup/memory.max", "700");
  EXPECT_EQ(limit(), 700);
}

TEST_F(CgroupMemory, AvailableIsWhatTheSystemSaysWithoutALimit) {
  write("proc/meminfo", "MemTotal:       9000 kB\nMemFree:   10 kB\nMemAvailable:     100 kB");
  EXPECT_EQ(available(), 102400);
  write("proc/self/cgroup", "0::/a");
  write("sys/fs/cgroup/a/memory.max", "max");
  EXPECT_EQ(available(), 102400);
}

TEST_F(CgroupMemory, AvailableIsWhatALimitLeavesCachesOfFilesNotCounted) {
  write("proc/meminfo", "MemAvailable: 100 kB");
  write("proc/self/cgroup", "0::/a/b");
  write("sys/fs/cgroup/a/memory.max", "50000");
  write("sys/fs/cgroup/a/memory.current", "30000");
  EXPECT_EQ(available(), 20000);
  write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 4000\nactive_file 1000\nfile 7");
  EXPECT_EQ(available(), 25000);
  write("sys/fs/cgroup/a/b/memory.max", "9000");
  write("sys/fs/cgroup/a/b/memory.current", "9500");  // as after a limit was lowered
  EXPECT_EQ(available(), 0);
  write("proc/self/cgroup", "4:memory:/c");
  write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "8000");
  write("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "5000");
  write("sys/fs/cgroup/memory/c/memory.stat", "inactive_file 9\ntotal_inactive_file 1000");
  EXPECT_EQ(available(), 4000);
}

TEST(UsableMemory, IsWithinTheLimit) {
  EXPECT_GT(usable_memory_bytes(), 0);
  if (const auto limit = cgroup_memory_limit()) {
    EXPECT_LE(usable_memory_bytes(), *limit);
  }
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), usable_memory_bytes());
}

}  // namespace
}  // namespace penstock
