#include "penstock/data/corpus/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>

#include "penstock/base/error.h"

namespace penstock {
namespace {

Batch numbered(std::int64_t step) { return {.sequences = 1, .length = 1, .inputs = {step}}; }

TEST(Prefetcher, DeliversInOrderFromTheFirstStep) {
  Prefetcher prefetcher(numbered, 41, 3);
  for (std::int64_t step = 41; step < 241; ++step) EXPECT_EQ(prefetcher.next().inputs[0], step);
}

TEST(Prefetcher, StopsWhileBatchesWait) {
  for (int i = 0; i < 50; ++i) {
    Prefetcher prefetcher(numbered, 0, 4);
    if (i % 2) prefetcher.next();
  }
}

TEST(Prefetcher, MakesNoMoreThanItsDepthAhead) {
  std::atomic<std::int64_t> made = 0;
  Prefetcher prefetcher(
      [&](std::int64_t step) {
        ++made;
        return numbered(step);
      },
      0, 2);
  for (std::int64_t taken = 1; taken <= 100; ++taken) {
    prefetcher.next();
    // Two batches wait, and a third may have been started.
    EXPECT_LE(made, taken + 3);
  }
}

TEST(Prefetcher, PassesErrorsOnAfterWhatCameBefore) {
  Prefetcher prefetcher(
      [](std::int64_t step) {
        if (step == 2) throw Error("step 2 is broken");
        return numbered(step);
      },
      0);
  EXPECT_EQ(prefetcher.next().inputs[0], 0);
  EXPECT_EQ(prefetcher.next().inputs[0], 1);
  EXPECT_THROW(prefetcher.next(), Error);
  EXPECT_THROW(prefetcher.next(), Error);
}

}  // namespace
}  // namespace penstock
