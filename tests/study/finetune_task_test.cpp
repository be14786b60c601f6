// What tells one fine-tuning of a study from another.
#include "penstock/study/finetune_task.h"

#include <gtest/gtest.h>

namespace penstock::study {
namespace {

TEST(FinetuneTask, KeysThatCameLaterLeaveAnEarlierHashAsItWas) {
  const FinetuneTask task{.name = "sst2", .format = "sst2"};
  // FNV-1a of "sst2", "final" and the lines KEY = DEFAULT of the 31 keys that there were before
  // `decay`, with seed = 1, by a few lines of Python.
  EXPECT_EQ(task_hash(task, 1, "final"), "c372e16bb8143d82");
  FinetuneTask coupled = task;
  coupled.settings.set("decay", ConfigNode(std::string("coupled")));
  EXPECT_NE(task_hash(coupled, 1, "final"), task_hash(task, 1, "final"));
}

}  // namespace
}  // namespace penstock::study
