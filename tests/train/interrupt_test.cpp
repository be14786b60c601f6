// The guard that turns signals into a flag.
#include "penstock/train/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

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
