// The choice of the connection that gives way to a newcomer, at times given by the test.
#include "penstock/serve/places.h"

#include <gtest/gtest.h>

#include <thread>

namespace penstock::serve {
namespace {

using namespace std::chrono_literals;

const Places::Time kNow = std::chrono::steady_clock::now();

/// Whether the place has to give way within 3 s.
bool is_asked_for(Place& place, Places::Time now) {
  for (int i = 0; i < 300; ++i) {
    if (place.gives_way(now)) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(Places, TheLongestWithoutARequestGivesWayAfterTheGrace) {
  Places places(2, {.grace = 1000ms, .patience = 1h});
  std::optional<Place> first = places.take(), second = places.take();
  ASSERT_TRUE(first && second);
  first->wait(kNow);
  second->wait(kNow + 1ms);
  EXPECT_FALSE(first->gives_way(kNow + 1h))
      << "the place gives way though nobody waits for a place";

  bool got = false;
  std::thread newcomer([&] { got = places.take().has_value(); });
  EXPECT_TRUE(is_asked_for(*first, kNow + 1000ms));
  first->work();  // a request came after all
  EXPECT_FALSE(second->gives_way(kNow + 1000ms)) << "the place gives way within the grace period";
  first->wait(kNow + 5ms);
  EXPECT_FALSE(first->gives_way(kNow + 1h))
      << "the place gives way though the other place has been idle for longer";
  EXPECT_TRUE(second->gives_way(kNow + 1001ms));
  EXPECT_TRUE(second->gives_way(kNow + 1001ms))
      << "the place does not give way any more, but it is not free yet";
  EXPECT_FALSE(first->gives_way(kNow + 1h)) << "two places give way to one newcomer";
  second.reset();
  newcomer.join();
  EXPECT_TRUE(got);
  EXPECT_FALSE(first->gives_way(kNow + 1h));
}

TEST(Places, WithoutPatienceThereIsOneOrNone) {
  Places places(1, {.grace = 1h, .patience = 0ms});
  std::optional<Place> only = places.take();
  ASSERT_TRUE(only);
  only->wait(kNow);
  EXPECT_FALSE(places.take());
  only.reset();
  EXPECT_TRUE(places.take());
}

TEST(Places, MayBecomeFewerAndMore) {
  Places places(2, {.grace = 1h, .patience = 0ms});
  std::optional<Place> first = places.take(), second = places.take();
  ASSERT_TRUE(first && second);
  places.resize(1);
  second.reset();
  EXPECT_FALSE(places.take());
  first.reset();
  const std::optional<Place> only = places.take();
  EXPECT_TRUE(only);
  EXPECT_FALSE(places.take());
  places.resize(2);
  EXPECT_TRUE(places.take());
}

TEST(Places, ClosingEndsTheWaiting) {
  Places places(1, {.grace = 1h, .patience = 1h});
  std::optional<Place> only = places.take();
  only->wait(kNow);
  bool got = true;
  std::thread newcomer([&] { got = places.take().has_value(); });
  places.close();
  newcomer.join();
  EXPECT_FALSE(got);
  only.reset();
  EXPECT_FALSE(places.take());
}

}  // namespace
}  // namespace penstock::serve
