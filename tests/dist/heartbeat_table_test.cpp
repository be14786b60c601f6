// What the table of ranks knows of their heartbeats, and the text in which it is passed on.
#include "penstock/dist/heartbeat_table.h"

#include <gtest/gtest.h>

#include <chrono>

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

}  // namespace
}  // namespace penstock::dist
