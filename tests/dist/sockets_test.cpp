// Connections that notice the loss of the other machine.
#include "penstock/dist/sockets.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/dist/transport.h"
#include "tests/dist/loopback_sockets.h"
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

/// A client that asks for a free port may be given this port for itself.
TEST(Sockets, ShowThatAClientWasConnectedToItself) {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const own = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(client, own, size), 0);
  ASSERT_EQ(::getsockname(client, own, &size), 0);
  EXPECT_FALSE(connected_to_itself(client));
  ASSERT_EQ(::connect(client, own, size), 0);
  EXPECT_TRUE(connected_to_itself(client));
  ::close(client);
  const testing::LoopbackConnection others;
  EXPECT_FALSE(connected_to_itself(others.one));
  EXPECT_FALSE(connected_to_itself(others.other));
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
