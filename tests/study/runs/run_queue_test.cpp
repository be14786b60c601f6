#include "penstock/study/runs/run_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace penstock::study {
namespace {

RunToTrain run(const std::string& name, std::vector<RunKey> after = {}) {
  return {.key = {name, 1}, .after = std::move(after)};
}

std::string next_of(RunQueue& queue) {
  const auto next = queue.next();
  return next ? next->key.first : "none";
}

TEST(RunQueue, ARunBeginsWhenTheRunsThatItNeedsHaveEnded) {
  RunQueue queue({run("a"), run("child", {{"a", 1}, {"b", 1}}), run("b"), run("c")});
  EXPECT_EQ(next_of(queue), "a");
  EXPECT_EQ(next_of(queue), "b");
  queue.ended({"a", 1});
  EXPECT_EQ(next_of(queue), "c");
  EXPECT_EQ(next_of(queue), "none");
  EXPECT_EQ(queue.waiting(), 1);
  queue.ended({"b", 2});  // another seed
  EXPECT_EQ(next_of(queue), "none");
  queue.ended({"b", 1});
  EXPECT_EQ(next_of(queue), "child");
  EXPECT_EQ(queue.waiting(), 0);
  EXPECT_EQ(next_of(queue), "none");
}

TEST(RunQueue, ARunDoesNotWaitForRunsOutsideOfTheQueue) {
  RunQueue queue({run("child", {{"trained before", 1}}), run("grandchild", {{"child", 1}})});
  EXPECT_EQ(next_of(queue), "child");
  EXPECT_EQ(next_of(queue), "none");
  queue.ended({"child", 1});
  EXPECT_EQ(next_of(queue), "grandchild");
}

}  // namespace
}  // namespace penstock::study
