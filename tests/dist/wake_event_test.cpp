// The event that ends a thread's wait.
#include "penstock/dist/wake_event.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "tests/base/error_of.h"
#include "tests/dist/open_files_limit.h"

namespace penstock::dist {
namespace {

TEST(WakeEvent, IsReadableOnceItIsRaised) {
  const WakeEvent event;
  pollfd watched{event.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  event.raise();
  EXPECT_EQ(::poll(&watched, 1, 0), 1);
  EXPECT_EQ(::poll(&watched, 1, 0), 1);
}

/// A thread that waits for an event that is not there would never end.
TEST(WakeEvent, SaysThatNoFileIsLeft) {
  const testing::OpenFilesLimit none(testing::lowest_free_file());
  testing::expect_error([] { WakeEvent(); }, {"`ulimit -Hn`"});
}

}  // namespace
}  // namespace penstock::dist
