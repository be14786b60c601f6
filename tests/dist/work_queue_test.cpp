// WorkQueue gives each number to one rank, in the order of the requests, and nothing after the last
// number.
#include "penstock/dist/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "penstock/dist/transport.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

using dist::ProcessGroup;
using dist::WorkQueue;
using Numbers = std::vector<std::int64_t>;

TEST(WorkQueue, GivesOneProcessAllNumbersInOrder) {
  WorkQueue queue(ProcessGroup(), 3);
  Numbers taken;
  while (const auto number = queue.next()) taken.push_back(*number);
  EXPECT_EQ(taken, (Numbers{0, 1, 2}));
  EXPECT_FALSE(queue.next());
}

TEST(WorkQueue, GivesEachNumberToOneRank) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  for (const std::int64_t count : {0, 1, 20}) {
    std::mutex mutex;
    Numbers taken;
    testing::on_ranks(3, [&](const ProcessGroup& group) {
      WorkQueue queue(group, count);
      while (const auto number = queue.next()) {
        const std::scoped_lock lock(mutex);
        taken.push_back(*number);
      }
      group.barrier("end");
    });
    std::ranges::sort(taken);
    ASSERT_EQ(std::ssize(taken), count);
    for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(taken[static_cast<std::size_t>(i)], i);
  }
}

TEST(WorkQueue, GivesNothingOnceItIsClosed) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  testing::on_ranks(2, [&](const ProcessGroup& group) {
    WorkQueue queue(group, 1000);
    group.barrier("begin");
    if (group.rank() == 1) queue.close();
    group.barrier("closed");
    EXPECT_FALSE(queue.next());
    group.barrier("end");
  });
}

}  // namespace
}  // namespace penstock
