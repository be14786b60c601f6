// The memory that a rank may take, where the ranks of a machine begin at different times.
#include "penstock/train/run_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "penstock/dist/transport.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

/// A machine of 1200 bytes, of which each rank takes 500 as soon as it knows its share.
TEST(RunMemory, IsMeasuredByAllRanksBeforeAnyTakesIt) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  std::atomic<int> free = 1200;
  testing::on_ranks(3, [&](const dist::ProcessGroup& group) {
    const double mine = memory_of_rank({.group = group, .processes_here = 3}, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(40 * group.rank()));
      return static_cast<double>(free);
    });
    free -= 500;
    EXPECT_EQ(mine, 400) << group.name();
  });
  EXPECT_EQ(free, -300);
}

TEST(RunMemory, IsNotMeasuredWhereTheCallerHasSettledIt) {
  const auto measured = []() -> double {
    ADD_FAILURE() << "measured";
    return 1;
  };
  EXPECT_EQ(memory_of_rank({.processes_here = 2, .memory = 70}, measured), 70);
  EXPECT_EQ(memory_of_rank({.processes_here = 2}, [] { return 90.0; }), 45);
}

}  // namespace
}  // namespace penstock
