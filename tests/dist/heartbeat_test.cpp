// Heartbeats: what the table knows of ranks, what a rank sends and receives, and the links that a
// rank cuts when another rank is lost. Whole processes that are stopped are tested in
// tests/cli/processes_test.py.
#include "penstock/dist/heartbeat.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "penstock/dist/links.h"

namespace penstock::dist {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(HeartbeatTable, NamesTheMostSilentRank) {
  HeartbeatTable beats;
  const auto begun = Clock::now();
  EXPECT_FALSE(beats.most_silent(begun));
  beats.heard(0, 10, begun);
  beats.heard(1, 11, begun + 2s);
  beats.heard(2, 12, begun + 1s);
  beats.heard(0, 10, begun + 5s);
  const auto silent = beats.most_silent(begun + 6s).value();
  EXPECT_EQ(silent.rank, 2);
  EXPECT_EQ(silent.since, 5000ms);
  EXPECT_FALSE(silent.lost());
  beats.ended(2);
  EXPECT_EQ(beats.most_silent(begun + 6s)->rank, 1);
}

TEST(HeartbeatTable, NamesTheFirstThatWasLostEverAfter) {
  HeartbeatTable beats;
  const auto begun = Clock::now();
  for (const int rank : {0, 1, 2}) beats.heard(rank, 10 + rank, begun);
  beats.ended(1);
  beats.hung_up(11);
  EXPECT_FALSE(beats.most_silent(begun)->lost())
      << "a rank that had said that it ends was reported lost";
  beats.hung_up(12);
  beats.hung_up(10);
  beats.lose({.rank = 0, .state = RankState::failed});
  beats.heard(2, 13, begun + 1s);
  EXPECT_EQ(beats.most_silent(begun + 6s)->rank, 2);
  EXPECT_EQ(beats.most_silent(begun + 6s)->state, RankState::gone);
}

TEST(HeartbeatTable, PrefersOneThatIsLostToThoseThatLostIt) {
  HeartbeatTable beats;
  beats.lose({.rank = 1, .state = RankState::followed});
  EXPECT_EQ(beats.most_silent(Clock::now())->rank, 1);
  beats.lose({.rank = 2, .state = RankState::given_up});
  beats.lose({.rank = 3, .state = RankState::followed});
  EXPECT_EQ(beats.most_silent(Clock::now())->rank, 2);
}

TEST(SilentRank, IsPassedOnAsText) {
  const SilentRank given_up{.rank = 3, .state = RankState::given_up, .since = 26001ms};
  EXPECT_EQ(text_of(given_up), "3 1 26001");
  const auto read = silent_from("3 1 26001").value();
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.state, RankState::given_up);
  EXPECT_EQ(read.since, 26001ms);
  for (const char* text : {"", "3", "3 1", "3 5 0", "3 -1 0", "x 1 0"})
    EXPECT_FALSE(silent_from(text)) << text;
}

TEST(HeartbeatTable, DoesNotCountWhileNobodyCouldBeHeard) {
  HeartbeatTable beats;
  const auto begun = Clock::now();
  beats.heard(3, 10, begun);
  beats.skip(60s);
  EXPECT_EQ(beats.most_silent(begun + 61s)->since, 1000ms);
  EXPECT_EQ(beats.most_silent(begun + 1s)->since, 0ms);
}

/// A rank that uses the table at `port`. `told` counts how often its thread reported a lost rank.
struct Rank {
  explicit Rank(int port, HeartbeatOptions options = {.silence = 300ms}, int rank = 0) {
    options.lost = [this] { ++told; };
    auto table = std::make_shared<KeyClient>(
        "127.0.0.1", port, 1000ms, KeyClientOptions{.patience = options.needs_table ? 1s : 0s});
    heartbeat.emplace(std::move(table), rank, std::move(options));
  }
  std::optional<RankLoss> lost_within(std::chrono::milliseconds time) const {
    const auto end = Clock::now() + time;
    while (!heartbeat->lost() && Clock::now() < end) std::this_thread::sleep_for(5ms);
    return heartbeat->lost();
  }
  std::atomic<int> told = 0;
  std::optional<Heartbeat> heartbeat;
};

TEST(Heartbeat, MissesARankThatFallsSilent) {
  const KeyServer server("127.0.0.1", 0);
  KeyClient other("127.0.0.1", server.port(), 1s);
  const Rank mine(server.port(), {.silence = 1s});  // longer than a busy machine delays a heartbeat
  const auto begun = Clock::now();
  while (Clock::now() < begun + 1500ms) {
    other.beat(7);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_FALSE(mine.heartbeat->lost()) << "the rank was reported lost while it sent heartbeats";
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 7);
  EXPECT_EQ(lost->how, RankState::given_up);
  while (mine.told < 2) std::this_thread::sleep_for(5ms);  // the report is repeated
}

TEST(Heartbeat, MissesARankThatEndsWithoutAWord) {
  const KeyServer server("127.0.0.1", 0);
  const Rank mine(server.port(), {.silence = 60s});
  {
    KeyClient other("127.0.0.1", server.port(), 1s);
    other.beat(4);
  }
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 4);
  EXPECT_EQ(lost->how, RankState::gone);
}

TEST(Heartbeat, DoesNotMissOneThatSaysItsEnd) {
  const KeyServer server("127.0.0.1", 0);
  const Rank mine(server.port());
  {
    Rank other(server.port(), {.silence = 300ms}, 1);
    other.heartbeat->leave();
  }
  EXPECT_FALSE(mine.lost_within(900ms));
  EXPECT_EQ(mine.told, 0);
}

TEST(Heartbeat, LosesOneThatFails) {
  const KeyServer server("127.0.0.1", 0);
  const Rank mine(server.port());
  { const Rank other(server.port(), {.silence = 300ms}, 1); }
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 1);
  EXPECT_EQ(lost->how, RankState::failed);
  while (mine.told == 0) std::this_thread::sleep_for(5ms);
}

/// The rank to name is the one that was lost first. Ranks that end because they lost it are not
/// named.
TEST(Heartbeat, IsNoFailureWhereAnotherWasLostBefore) {
  const KeyServer server("127.0.0.1", 0);
  const Rank mine(server.port(), {.silence = 60s});
  { const Rank failed(server.port(), {.silence = 60s}, 2); }
  {
    const Rank other(server.port(), {.silence = 300ms}, 1);
    ASSERT_TRUE(other.lost_within(10s));
  }
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 2);
}

/// Gloo told the rank of the loss before the table did.
TEST(Heartbeat, DoesNotSayThatItFailedWhereAnOperationLostAnother) {
  const KeyServer server("127.0.0.1", 0);
  const Rank mine(server.port());
  {
    Rank other(server.port(), {.silence = 300ms}, 1);
    other.heartbeat->lost_another();
  }
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 1);
  EXPECT_EQ(lost->how, RankState::followed);
}

/// This rank was stopped, and resumes after all others have given it up. Every operation that it
/// waits for must end.
TEST(Heartbeat, HearsThatTheOthersHaveGivenThisRankUp) {
  const KeyServer server("127.0.0.1", 0);
  const Rank mine(server.port());
  KeyClient other("127.0.0.1", server.port(), 1s);
  other.lose({.rank = 0, .state = RankState::given_up, .since = 26s});
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 0);
  EXPECT_EQ(lost->how, RankState::given_up);
  EXPECT_EQ(lost->silent, 26s);
  while (mine.told == 0) std::this_thread::sleep_for(5ms);
}

TEST(Heartbeat, TellsTheOthersWhomItGivesUp) {
  const KeyServer server("127.0.0.1", 0);
  KeyClient stopped("127.0.0.1", server.port(), 1s);
  stopped.beat(3);
  const Rank hasty(server.port(), {.silence = 100ms}, 1);
  ASSERT_TRUE(hasty.lost_within(10s));
  const auto until = Clock::now() + 10s;
  while (!stopped.beat(3).lost() && Clock::now() < until) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(stopped.beat(3).rank, 3);
  EXPECT_EQ(stopped.beat(3).state, RankState::given_up);
}

TEST(Heartbeat, DoesNotMissATableThatIsEnded) {
  std::optional<KeyServer> server(std::in_place, "127.0.0.1", 0);
  const Rank mine(server->port());
  std::this_thread::sleep_for(50ms);
  server.reset();
  EXPECT_FALSE(mine.lost_within(900ms));
}

/// The process with the table learns of the loss first. It ends before the other ranks ask again.
TEST(Heartbeat, IsToldWhoIsLostByATableThatEnds) {
  std::optional<KeyServer> server(std::in_place, "127.0.0.1", 0);
  const Rank waits(server->port(), {.silence = 60s}), asks(server->port(), {.silence = 250ms}, 1);
  std::this_thread::sleep_for(20ms);
  {
    KeyClient other("127.0.0.1", server->port(), 1s);
    other.beat(4);
  }
  std::this_thread::sleep_for(20ms);
  server.reset();
  for (const Rank* rank : {&waits, &asks}) {
    const auto lost = rank->lost_within(10s);
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->rank, 4);
    EXPECT_EQ(lost->how, RankState::gone);
  }
}

/// A socket that lets programs connect and never answers, like the socket of a stopped process.
class Mute {
 public:
  Mute() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  ~Mute() { die(); }
  /// Closes the socket. The system then ends its connections.
  void die() {
    if (listener_ >= 0) ::close(listener_);
    listener_ = -1;
  }
  int port = 0;

 private:
  int listener_;
};

TEST(Heartbeat, MissesATableThatDoesNotAnswerOrIsGone) {
  Mute stopped;
  const Rank mine(stopped.port, {.silence = 1000ms});
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, std::nullopt);
  EXPECT_EQ(lost->how, RankState::given_up);
  EXPECT_EQ(lost->silent, 1s);

  Mute killed;
  const Rank second(killed.port, {.silence = 1000ms});
  killed.die();
  const auto gone = second.lost_within(10s);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->rank, std::nullopt);
  EXPECT_EQ(gone->how, RankState::gone);
}

TEST(Heartbeat, GoesOnWithoutATableThatItDoesNotNeed) {
  Mute launcher;
  const Rank mine(launcher.port, {.silence = 300ms, .needs_table = false});
  EXPECT_FALSE(mine.lost_within(700ms));
  launcher.die();
  EXPECT_FALSE(mine.lost_within(300ms));
}

TEST(KeyClient, IsAsPatientAsItIsTold) {
  Mute stopped;
  KeyClient client("127.0.0.1", stopped.port, 1s, {.patience = 1s});
  EXPECT_THROW(client.get("a"), SilentTable);
}

/// Both ends of a connection on this machine.
struct Ends {
  Ends() {
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    one = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    other = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  ~Ends() {
    ::close(one);
    ::close(other);
  }
  /// Whether a byte still arrives.
  bool passes() const {
    char byte = 'x';
    return ::send(one, &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(other, &byte, 1, 0) == 1;
  }
  int one = -1, other = -1;
};

TEST(Links, AreCutAndNothingElse) {
  const Ends before;
  std::optional<Ends> links;
  Links watched;
  watched.watch([&] { links.emplace(); });
  const Ends after;
  EXPECT_TRUE(links->passes());
  watched.cut();
  EXPECT_FALSE(links->passes());
  EXPECT_TRUE(before.passes());
  EXPECT_TRUE(after.passes());
}

TEST(Links, TellWhoeverWaitsThatTheyAreCut) {
  Links links;
  int told = 0;
  auto waits = links.on_cut([&] { ++told; });
  links.cut();
  links.cut();
  EXPECT_EQ(told, 2);
  waits.reset();
  links.cut();
  EXPECT_EQ(told, 2);
}

TEST(Links, HaveEndedWhenWhoeverWaitsIsTold) {
  Links watched;
  std::optional<Ends> links;
  watched.watch([&] { links.emplace(); });
  bool passed = true;
  const auto waits = watched.on_cut([&] { passed = links->passes(); });
  watched.cut();
  EXPECT_FALSE(passed);
}

TEST(Links, AreForgottenOnceTheyAreClosed) {
  Links watched;
  std::optional<Ends> links;
  watched.watch([&] { links.emplace(); });
  const std::pair numbers{links->one, links->other};
  links.reset();
  const Ends others;  // the system usually assigns the same descriptors again
  EXPECT_EQ(std::minmax(others.one, others.other), std::minmax(numbers.first, numbers.second));
  watched.cut();
  EXPECT_TRUE(others.passes());
}

TEST(Links, AreCutWhileTheyAreMade) {
  Links watched;
  watched.watch([&] {
    const Ends half;
    EXPECT_TRUE(half.passes());
    watched.cut();
    EXPECT_FALSE(half.passes());
  });
}

}  // namespace
}  // namespace penstock::dist
