// The table by which ranks find each other, and the programs that it turns away.
#include "penstock/dist/key_server.h"

#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include "penstock/base/error.h"
#include "penstock/dist/sockets.h"
#include "tests/base/error_of.h"
#include "tests/dist/loopback_sockets.h"
#include "tests/dist/open_files_limit.h"

namespace penstock::dist {
namespace {

using namespace std::chrono_literals;

/// Connects as another program and sends `text`.
int connected_with(int port, const std::string& text) {
  const int out = testing::connected_to(port);
  EXPECT_EQ(::send(out, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  return out;
}

/// Whether the server then closes the connection.
bool turned_away(int port, const std::string& text) {
  const int out = connected_with(port, text);
  char byte = 0;
  const bool closed = ::recv(out, &byte, 1, 0) <= 0;
  ::close(out);
  return closed;
}

TEST(KeyServer, KeepsWhatOneSetsForAll) {
  const KeyServer server("127.0.0.1", 0);
  KeyClient one("127.0.0.1", server.port(), 1s), two("localhost", server.port(), 1s);
  EXPECT_EQ(one.get("a"), std::nullopt);
  const std::string binary("x\0y\n", 4), large(100000, 'z');
  one.set("a", binary);
  two.set("b", large);
  EXPECT_EQ(two.get("a"), binary);
  EXPECT_EQ(one.get("b"), large);
  EXPECT_EQ(one.add("n", 2), 2);
  EXPECT_EQ(two.add("n", -5), -3);
  EXPECT_EQ(one.size(), 3);
  EXPECT_TRUE(two.remove("a"));
  EXPECT_FALSE(one.remove("a"));
  EXPECT_EQ(one.local_address(), "127.0.0.1");
}

TEST(KeyServer, HoldsValuesFromItsStart) {
  const KeyServer server("127.0.0.1", 0, {{"a", "here"}});
  KeyClient client("127.0.0.1", server.port(), 1s);
  EXPECT_EQ(client.get("a"), "here");
  EXPECT_EQ(client.size(), 1);
}

TEST(KeyServer, AddsNoMoreThanANumberHolds) {
  const KeyServer server("127.0.0.1", 0);
  KeyClient client("127.0.0.1", server.port(), 1s);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(client.add("n", kMost), kMost);
  testing::expect_error([&] { client.add("n", 1); }, {"in place of a number"});
  EXPECT_EQ(client.add("n", -1), kMost - 1);
}

TEST(KeyServer, AnswersOneThatWaitsOnceAnotherHasSet) {
  const KeyServer server("127.0.0.1", 0);
  KeyClient one("127.0.0.1", server.port(), 1s), two("127.0.0.1", server.port(), 1s);
  EXPECT_EQ(one.wait("late", 20ms), std::nullopt);
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    two.set("late", "here");
  });
  EXPECT_EQ(one.wait("late", 10s), "here");
  other.join();
}

TEST(KeyServer, ListensOnItsAddressAlone) {
  const KeyServer server("127.0.0.2", 0);
  EXPECT_THROW(KeyClient("127.0.0.1", server.port(), 0ms), Error);
  EXPECT_EQ(KeyClient("127.0.0.2", server.port(), 1s).get("a"), std::nullopt);
}

/// On most machines "localhost" is 127.0.0.1 and ::1, and a client may know one of them alone.
TEST(KeyServer, IsReachedAtEachAddressOfItsName) {
  const KeyServer server("localhost", 0);
  const Addresses addresses = resolve_address("localhost", 0);
  for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
    if (!testing::is_of_this_machine(*at)) continue;
    char text[NI_MAXHOST] = "";
    ASSERT_EQ(
        ::getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST),
        0);
    EXPECT_EQ(KeyClient(text, server.port(), 1s).get("a"), std::nullopt) << text;
  }
}

TEST(KeyServer, IsReachedByOneProtocolAlone) {
  const KeyServer server("127.0.0.1", 0);
  EXPECT_TRUE(KeyClient("127.0.0.1", server.port(), 1s, {.family = AF_INET}).by_ipv4());
  testing::expect_error([&] { KeyClient("127.0.0.1", server.port(), 0ms, {.family = AF_INET6}); },
                        {"rank 0 cannot be reached"});
}

TEST(KeyServer, SaysThatAnotherProgramAnswers) {
  const testing::LoopbackListener listener;
  std::thread program([&] {
    const int client = ::accept(listener.descriptor(), nullptr, nullptr);
    const std::string greeting = "SSH-2.0-OpenSSH_9.2p1\r\n";
    EXPECT_TRUE(send_all(client, greeting));
    char byte = 0;
    while (::recv(client, &byte, 1, 0) > 0) {
    }
    ::close(client);
  });
  {
    KeyClient asks("127.0.0.1", listener.port(), 1s);
    testing::expect_error([&] { asks.get("a"); }, {"no table of ranks answers at 127.0.0.1:",
                                                   "choose another MASTER_PORT"});
  }
  program.join();
}

TEST(KeyServer, TurnsAwayOtherProgramsAndImpossibleLengths) {
  const KeyServer server("127.0.0.1", 0);
  EXPECT_TRUE(turned_away(server.port(), "GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(turned_away(server.port(), "penstock ranks 1\ns\xff\xff\xff\xff\xff\xff\xff\xff"));
  EXPECT_EQ(KeyClient("127.0.0.1", server.port(), 1s).size(), 0);
}

/// A program asks 60 times for a value of 1 MB, which is more than sockets hold, and reads nothing.
/// The others are answered at once. It gets all its answers when it reads.
TEST(KeyServer, MakesNobodyWaitForOneThatDoesNotRead) {
  constexpr std::size_t kTimes = 60, kBytes = 1 << 20;
  const KeyServer server("127.0.0.1", 0);
  KeyClient other("127.0.0.1", server.port(), 1s);
  other.set("k", std::string(kBytes, 'z'));
  std::string requests = kGreeting;
  for (std::size_t i = 0; i < kTimes; ++i)
    requests += concat("g", length_bytes(1), length_bytes(0), "k");
  const int greedy = connected_with(server.port(), requests);
  // The server has begun to answer it, and answers others in between.
  for (int i = 0; i < 200; ++i) EXPECT_EQ(other.get("a"), std::nullopt);
  std::size_t read = 0;
  std::string bytes(kBytes, '\0');
  for (ssize_t now = 1; now > 0 && read < kTimes * (kReplyHeader + kBytes);
       read += static_cast<std::size_t>(now > 0 ? now : 0))
    now = ::recv(greedy, bytes.data(), bytes.size(), 0);
  EXPECT_EQ(read, kTimes * (kReplyHeader + kBytes));
  ::close(greedy);
}

/// The client takes the last file of the process, so the server has none for its connection.
TEST(KeyServer, TellsAClientThatNoFileIsLeftForIt) {
  const KeyServer server("127.0.0.1", 0);
  KeyClient before("127.0.0.1", server.port(), 1s);
  before.set("a", "here");
  for (int i = 0; i < 2; ++i) {
    const testing::OpenFilesLimit one_more(testing::lowest_free_file() + 1);
    KeyClient client("127.0.0.1", server.port(), 1s, {.patience = 5s});
    testing::expect_error([&] { client.get("a"); },
                          {"takes no more connections: its process may have ", "`ulimit -Hn`"});
    EXPECT_EQ(before.get("a"), "here");
  }
  EXPECT_EQ(KeyClient("127.0.0.1", server.port(), 1s).get("a"), "here");
}

TEST(KeyServer, SaysThatAClientHasNoFileLeft) {
  const KeyServer server("127.0.0.1", 0);
  const testing::OpenFilesLimit none(testing::lowest_free_file());
  testing::expect_error([&] { KeyClient("127.0.0.1", server.port(), 1s); },
                        {"this rank cannot connect to rank 0"});
}

/// No network knows a name of this length, and none is asked for it.
TEST(KeyServer, WaitsForANameThatIsNotKnownYet) {
  const std::string unknown(64, 'x');
  EXPECT_NE(why_unknown(unknown), "");
  EXPECT_EQ(why_unknown("127.0.0.1"), "");
  int waited = 0;
  const auto give_up = [&] {
    if (++waited % 2 == 0) fail("waited twice");
  };
  const auto asks = [&] { KeyClient(unknown, 29500, 60s, {.connecting = give_up}); };
  const auto listens = [&] { KeyServer(unknown, 29500, {}, 60s, give_up); };
  EXPECT_EQ(testing::error_of(asks), "waited twice");
  EXPECT_EQ(testing::error_of(listens), "waited twice");
  EXPECT_EQ(waited, 4);
  const std::string remedy = "name rank 0's machine by an address that this one knows";
  testing::expect_error([&] { KeyClient(unknown, 29500, 0s); }, {remedy});
  testing::expect_error([&] { KeyServer(unknown, 29500); }, {remedy});
}

TEST(KeyClient, IsAsPatientAsItIsTold) {
  const testing::LoopbackListener stopped;
  KeyClient client("127.0.0.1", stopped.port(), 1s, {.patience = 1s});
  EXPECT_THROW(client.get("a"), SilentTable);
}

TEST(KeyServer, SaysWhereItCannotListen) {
  const KeyServer server("127.0.0.1", 0);
  testing::expect_error([&] { KeyServer("127.0.0.1", server.port()); },
                        {"cannot listen on MASTER_ADDR = 127.0.0.1"});
  EXPECT_THROW(KeyServer("192.0.2.1", 0), Error);  // no machine has this address
}

}  // namespace
}  // namespace penstock::dist
