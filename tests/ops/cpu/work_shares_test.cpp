// Shares of work: a thread takes its own items in order, then the last items of others; each item
// is taken once, whatever the threads do at the same time.
#include "penstock/ops/cpu/work_shares.h"

#include <gtest/gtest.h>

#include <thread>

namespace penstock::work_shares_test {
namespace {

using ops::cpu::WorkShares;

std::vector<std::int64_t> all_of(WorkShares& shares, int thread) {
  std::vector<std::int64_t> items;
  while (const auto item = shares.next(thread)) items.push_back(*item);
  return items;
}

TEST(WorkShares, AThreadTakesItsShareInOrderAndThenTheEndsOfOthers) {
  WorkShares shares(10, 3);  // [0, 3), [3, 6), [6, 10)
  EXPECT_EQ(shares.next(1), 3);
  EXPECT_EQ(all_of(shares, 0), (std::vector<std::int64_t>{0, 1, 2, 9, 8, 5, 7, 4, 6}));
  EXPECT_EQ(shares.next(2), std::nullopt);
}

TEST(WorkShares, OfNoItemsAndOfFewerItemsThanThreads) {
  WorkShares none(0, 2);
  EXPECT_EQ(none.next(1), std::nullopt);
  WorkShares few(2, 4);
  EXPECT_EQ(all_of(few, 0).size(), 2u);
}

TEST(WorkShares, ThreadsTakeEachItemOnce) {
  constexpr int kThreads = 4;
  constexpr std::size_t kItems = 100001;
  WorkShares shares(kItems, kThreads);
  std::vector<std::vector<std::int64_t>> taken(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] { taken[static_cast<std::size_t>(i)] = all_of(shares, i); });
  }
  std::vector<int> times(kItems);
  for (const auto& items : taken)
    for (const std::int64_t item : items) ++times[static_cast<std::size_t>(item)];
  EXPECT_EQ(times, std::vector<int>(kItems, 1));
}

}  // namespace
}  // namespace penstock::work_shares_test
