// Connections that notice the loss of the other machine.
#include "penstock/dist/sockets.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/dist/transport.h"
#include "tests/dist/ranks.h"

namespace penstock::dist {
namespace {

int option(int descriptor, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  ::getsockopt(descriptor, level, name, &value, &size);
  return value;
}

TEST(Sockets, ALostMachineIsAskedForThreeTimesInTwentyFiveSeconds) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(descriptor, 0);
  EXPECT_FALSE(connections().contains(descriptor));  // not connected yet
  watch_machine(descriptor);
  EXPECT_EQ(option(descriptor, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT), 25000);
  EXPECT_EQ(option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE) +
                option(descriptor, IPPROTO_TCP, TCP_KEEPCNT) *
                    option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL),
            25);
  ::close(descriptor);
}

/// Each of the two ranks sends bytes to the other over 127.0.0.1.
TEST(Sockets, RanksWatchEachOther) {
  if (!has_transport()) GTEST_SKIP() << "built without Gloo";
  const std::set<int> before = connections();
  testing::on_ranks(2, [&](const ProcessGroup& group) {
    int watched = 0;
    for (const int descriptor : connections())
      watched += !before.contains(descriptor) && option(descriptor, SOL_SOCKET, SO_KEEPALIVE) == 1;
    EXPECT_GE(watched, 2);
    group.barrier("both have looked");
  });
}

}  // namespace
}  // namespace penstock::dist
