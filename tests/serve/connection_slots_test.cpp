// The choice of the connection that gives way to a newcomer, at times given by the test.
#include "penstock/serve/connection_slots.h"

#include <gtest/gtest.h>

#include <thread>

namespace penstock::serve {
namespace {

using namespace std::chrono_literals;

const ConnectionSlots::Time kNow = std::chrono::steady_clock::now();

/// Whether the slot has to give way within 30 s.
bool is_asked_for(ConnectionSlot& slot, ConnectionSlots::Time now) {
  for (int i = 0; i < 3000; ++i) {
    if (slot.gives_way(now)) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST(ConnectionSlots, TheLongestWithoutARequestGivesWayAfterTheGrace) {
  ConnectionSlots slots(2, {.grace = 1000ms, .patience = 1h});
  std::optional<ConnectionSlot> first = slots.take(), second = slots.take();
  ASSERT_TRUE(first && second);
  first->wait(kNow);
  second->wait(kNow + 1ms);
  EXPECT_FALSE(first->gives_way(kNow + 1h)) << "the slot gives way though nobody waits for a slot";

  bool got = false;
  std::thread newcomer([&] { got = slots.take().has_value(); });
  EXPECT_TRUE(is_asked_for(*first, kNow + 1000ms));
  first->work();  // a request came after all
  EXPECT_FALSE(second->gives_way(kNow + 1000ms)) << "the slot gives way within the grace period";
  first->wait(kNow + 5ms);
  EXPECT_FALSE(first->gives_way(kNow + 1h))
      << "the slot gives way though the other slot has been idle for longer";
  EXPECT_TRUE(second->gives_way(kNow + 1001ms));
  EXPECT_TRUE(second->gives_way(kNow + 1001ms))
      << "the slot does not give way any more, but it is not free yet";
  EXPECT_FALSE(first->gives_way(kNow + 1h)) << "two slots give way to one newcomer";
  second.reset();
  newcomer.join();
  EXPECT_TRUE(got);
  EXPECT_FALSE(first->gives_way(kNow + 1h));
}

TEST(ConnectionSlots, WithoutPatienceThereIsOneOrNone) {
  ConnectionSlots slots(1, {.grace = 1h, .patience = 0ms});
  std::optional<ConnectionSlot> only = slots.take();
  ASSERT_TRUE(only);
  only->wait(kNow);
  EXPECT_FALSE(slots.take());
  only.reset();
  EXPECT_TRUE(slots.take());
}

TEST(ConnectionSlots, MayBecomeFewerAndMore) {
  ConnectionSlots slots(2, {.grace = 1h, .patience = 0ms});
  std::optional<ConnectionSlot> first = slots.take(), second = slots.take();
  ASSERT_TRUE(first && second);
  slots.resize(1);
  second.reset();
  EXPECT_FALSE(slots.take());
  first.reset();
  const std::optional<ConnectionSlot> only = slots.take();
  EXPECT_TRUE(only);
  EXPECT_FALSE(slots.take());
  slots.resize(2);
  EXPECT_TRUE(slots.take());
}

TEST(ConnectionSlots, ClosingEndsTheWaiting) {
  ConnectionSlots slots(1, {.grace = 1h, .patience = 1h});
  std::optional<ConnectionSlot> only = slots.take();
  only->wait(kNow);
  bool got = true;
  std::thread newcomer([&] { got = slots.take().has_value(); });
  slots.close();
  newcomer.join();
  EXPECT_FALSE(got);
  only.reset();
  EXPECT_FALSE(slots.take());
}

}  // namespace
}  // namespace penstock::serve
