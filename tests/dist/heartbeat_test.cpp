// What a rank's heartbeat sends, and which lost rank it hears of. heartbeat_table_test.cpp has the
// table's side. Whole processes that are stopped are tested in tests/cli/processes_test.py.
#include "penstock/dist/heartbeat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "penstock/dist/key_server.h"
#include "tests/dist/loopback_sockets.h"

namespace penstock::dist {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

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

/// A listener that answers nothing stands for a process that is stopped.
TEST(Heartbeat, MissesATableThatDoesNotAnswerOrIsGone) {
  testing::LoopbackListener stopped;
  const Rank mine(stopped.port(), {.silence = 1000ms});
  const auto lost = mine.lost_within(10s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, std::nullopt);
  EXPECT_EQ(lost->how, RankState::given_up);
  EXPECT_EQ(lost->silent, 1s);

  testing::LoopbackListener killed;
  const Rank second(killed.port(), {.silence = 1000ms});
  killed.close();
  const auto gone = second.lost_within(10s);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->rank, std::nullopt);
  EXPECT_EQ(gone->how, RankState::gone);
}

TEST(Heartbeat, GoesOnWithoutATableThatItDoesNotNeed) {
  testing::LoopbackListener launcher;
  const Rank mine(launcher.port(), {.silence = 300ms, .needs_table = false});
  EXPECT_FALSE(mine.lost_within(700ms));
  launcher.close();
  EXPECT_FALSE(mine.lost_within(300ms));
}

}  // namespace
}  // namespace penstock::dist
