// The guard that turns signals into a flag.
#include "penstock/train/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "tests/train/heard_hangups.h"

namespace penstock {
namespace {

TEST(Interrupt, ASignalInAnotherThreadIsSeenAndHandlersComeBack) {
  struct sigaction ignore = {}, old = {}, after = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGTERM, &ignore, &old);
  {
    const InterruptGuard guard;
    EXPECT_EQ(guard.signal(), 0);
    std::thread other([] { ::raise(SIGTERM); });  // to the calling thread
    while (guard.signal() == 0) std::this_thread::yield();
    other.join();
    EXPECT_EQ(guard.signal(), SIGTERM);
  }
  EXPECT_EQ(InterruptGuard().signal(), 0);
  sigaction(SIGTERM, &old, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST(Interrupt, AHangupThatIsIgnoredStaysIgnored) {
  // nohup starts programs so; the terminal's end then sends SIGHUP.
  const testing::HeardHangups heard;
  struct sigaction ignore = {}, old = {}, meanwhile = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &old);
  {
    const InterruptGuard guard;
    sigaction(SIGHUP, nullptr, &meanwhile);
    ::raise(SIGHUP);
    EXPECT_EQ(guard.signal(), 0);
    ::raise(SIGTERM);
    EXPECT_EQ(guard.signal(), SIGTERM);
  }
  EXPECT_EQ(meanwhile.sa_handler, SIG_IGN);
  EXPECT_EQ(stopping_signals(), (std::vector<int>{SIGINT, SIGTERM}));
  sigaction(SIGHUP, &old, nullptr);
  EXPECT_EQ(stopping_signals(), (std::vector<int>{SIGINT, SIGTERM, SIGHUP}));
}

TEST(Interrupt, ASignalThatIsSentTwiceAtATimeIsOne) {
  using namespace std::chrono_literals;
  EXPECT_FALSE(ends_at_once(SIGTERM, 0ns));
  EXPECT_FALSE(ends_at_once(SIGHUP, 999ms));
  EXPECT_TRUE(ends_at_once(SIGTERM, 1s));
  EXPECT_TRUE(ends_at_once(SIGINT, 0ns));  // a key was pressed twice
}

TEST(Interrupt, GuardsOfTwoThreadsMayEndInAnyOrder) {
  struct sigaction ignore = {}, old = {}, after = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGTERM, &ignore, &old);
  std::optional<InterruptGuard> first(std::in_place), second(std::in_place);
  first.reset();
  ::raise(SIGTERM);
  EXPECT_EQ(second->signal(), SIGTERM);
  second.reset();
  sigaction(SIGTERM, &old, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST(Interrupt, WorkUnderAGuardCanBeStoppedWithoutASignal) {
  const InterruptGuard guard;
  EXPECT_EQ(guard.signal(), 0);
  stop_guarded_work(SIGTERM);
  EXPECT_EQ(guard.signal(), SIGTERM);
  stop_guarded_work(SIGHUP);
  EXPECT_EQ(guard.signal(), SIGTERM);
}

TEST(Interrupt, AGuardWithinAnotherHasItsSignalAndLeavesItOne) {
  const InterruptGuard outer;
  ::raise(SIGTERM);
  {
    const InterruptGuard inner;
    EXPECT_EQ(inner.signal(), SIGTERM);  // otherwise a run that begins now would continue
  }
  EXPECT_EQ(outer.signal(), SIGTERM);
}

}  // namespace
}  // namespace penstock
