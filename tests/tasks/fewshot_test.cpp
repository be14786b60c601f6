// Few-shot examples: their positions, and the errors if there are none. parity_test.cpp checks that
// they equal lm-eval's.
#include "penstock/tasks/fewshot.h"

#include <gtest/gtest.h>

#include <fstream>

#include "penstock/io/toml.h"
#include "penstock/tasks/evaluate.h"
#include "tests/base/temp_directory.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

Task described(const std::string& fewshot, const std::string& more = "") {
  return parse_task(parse_toml("name = \"t\"\nmetrics = [\"acc\"]\nfiles = [\"t.jsonl\"]\n"
                               "description = \"Say:\\n\"\n" +
                                   more + fewshot +
                                   "[[form]]\nhas = [\"q\"]\ncontext = \"{{q}}?\"\n"
                                   "choices = [\"no\", \"yes\"]\ngold = \"{{g}}\"\n",
                               "t.toml"),
                    "t.toml");
}

const std::vector<std::string> kRows = {R"({"q": "a", "g": 1})", R"({"q": "b", "g": 0})",
                                        R"({"q": "c", "g": 1})"};

Items with_examples(const Task& task, const Shots& shots) {
  const auto rows = rows_of(kRows);
  Items out = make_items(task, rows);
  add_examples(task, make_items(task, rows).items, shots, out);
  return out;
}

TEST(Fewshot, ExamplesStandBetweenDescriptionAndContext) {
  const Task task = described("[fewshot]\nfirst = true\nseparator = \"; \"\n");
  const Items items = with_examples(task, {.count = 2});
  EXPECT_EQ(items.items[2].requests[0], (TextRequest{"Say:\na? yes; b? no; c?", " no"}));
  EXPECT_EQ(items.items[2].requests[1].context, items.items[2].requests[0].context);
  EXPECT_EQ(items.items[0].requests[0].context, "Say:\na? yes; b? no; a?");
  EXPECT_EQ(items.shots.count, 2u);
  EXPECT_EQ(with_examples(task, {}).items[0].requests[0].context, "Say:\na?");
}

TEST(Fewshot, TheAskedRowIsDroppedWhereTheTaskSaysSo) {
  const Task task =
      described("[fewshot]\nwithout_itself = true\nfirst = true\nseparator = \"; \"\n");
  const Items items = with_examples(task, {.count = 2});
  EXPECT_EQ(items.items[0].requests[0].context, "Say:\nb? no; c? yes; a?");
  EXPECT_EQ(items.items[2].requests[0].context, "Say:\na? yes; b? no; c?");
}

TEST(Fewshot, SeedsDrawOtherExamplesAndTheSameOnesAgain) {
  const Task task = described("[fewshot]\n");
  const auto text = [&](std::uint64_t seed) {
    std::string out;
    for (const Item& item : with_examples(task, {.count = 2, .seed = seed}).items)
      out += item.requests[0].context;
    return out;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Fewshot, WhatIsMissingIsSaid) {
  const auto error = [](const Task& task, std::size_t count) {
    return error_of([&] { with_examples(task, {.count = count}); });
  };
  EXPECT_EQ(
      error(described(""), 1),
      "task t: t.toml has no table [fewshot] that says where its few-shot examples come from");
  EXPECT_EQ(error(described("[fewshot]\n"), 4),
            "task t: 4 few-shot examples are asked for, and there are 3 rows to draw from");
  EXPECT_EQ(error(described("[fewshot]\nwithout_itself = true\n"), 3),
            "task t: 3 few-shot examples are asked for, one more is drawn, and there are 3 rows to "
            "draw from");
  EXPECT_EQ(error(described("[fewshot]\n", "protocol = \"opencompass\"\n"), 1),
            "task t: protocol opencompass's forms have no few-shot examples; leave options.fewshot "
            "out, or choose lm-eval");
  EXPECT_EQ(error_of([] { described("", "fewshot = 3\n"); }).substr(0, 26),
            "t.toml:5: expected a table");
  EXPECT_EQ(error_of([] { described("[fewshot]\nfiles = 3\n"); }).substr(0, 23),
            "t.toml:6: fewshot.files");
  EXPECT_EQ(error_of([] { described("[fewshot]\nfirst = 1\n"); }).substr(0, 23),
            "t.toml:6: fewshot.first");
}

TEST(Fewshot, ExamplesAreReadFromTheTasksOtherFile) {
  const testing::TempDirectory folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() / name) << text;
  };
  write("t.jsonl", kRows[0] + "\n");
  const LoadOptions options{.directory = folder.path().string(), .shots = {.count = 1}};
  const Task task = described("[fewshot]\nfiles = [\"train.jsonl\"]\n");
  EXPECT_EQ(error_of([&] { load_task(task, options); }),
            "task t: the rows of its few-shot examples are not in " + folder.path().string() +
                "; looked for train.jsonl (each also with .gz)");
  write("train.jsonl", kRows[1] + "\n");
  const LoadedTask loaded = load_task(task, options);
  EXPECT_EQ(loaded.items.items.at(0).requests[0].context, "Say:\nb? no\n\na?");
  EXPECT_EQ(loaded.files.size(), 2u);
}

// Every lm-eval task names the source of its examples.
TEST(Fewshot, TasksOfTheProgramHaveExamples) {
  for (const Task& task : all_tasks(TaskProtocol::kLmEval))
    EXPECT_TRUE(task.fewshot) << task.origin;
}

}  // namespace
}  // namespace penstock::tasks
