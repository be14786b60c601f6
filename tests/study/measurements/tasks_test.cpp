// Zero-shot tasks of a study: each run is asked once; results are kept and shown beside the
// paper's.
#include <gtest/gtest.h>

#include <filesystem>

#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/tasks/catalogue.h"
#include "penstock/tasks/rows.h"
#include "tests/base/error_of.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using nlohmann::json;
using testing::FakeTrainer;
using testing::write_text;

/// Hooks whose models answer 3 of 10 items correctly (remoe's 4 of 10). Guessing gives 0.25.
StudyHooks answering(FakeTrainer& trainer, std::vector<std::string>& asked) {
  StudyHooks hooks = trainer.hooks();
  hooks.measure = [&asked](const Measurement& one, const FinishedRun& run, const Work& work) {
    EXPECT_EQ(one.name(), "tasks");
    const auto task = work.asked["task"].get<std::string>();
    asked.push_back(run.variant + " " + task);
    return json{{"task", task},
                {"protocol", "lm-eval"},
                {"version", work.asked["version"]},
                {"checkpoint", word(run.checkpoint)},
                {"limit", 10},
                {"n", 10},
                {"acc", run.variant == "remoe" ? 0.4 : 0.3},
                {"guess", 0.25},
                {"is_guessing", task == "arc_easy" || run.variant != "remoe"}};
  };
  return hooks;
}

using TasksMeasurement = testing::StudyRunner;

TEST_F(TasksMeasurement, AsksEachRunOnceAndShowsThePapersCells) {
  const std::string head = "task_data = \"data\"\ntask_limit = 10\n";
  ask(head + "tasks = [\"arc_easy\", \"piqa\"]\n", "published = {piqa = 45.5}\n");  // for remoe
  FakeTrainer first, second;
  std::vector<std::string> asked, again;
  const auto results = run_study(read_study(file), options, answering(first, asked)).results;
  EXPECT_EQ(asked.size(), 24u);  // 4 variants, 3 seeds, 2 tasks
  EXPECT_EQ(asked[0], "dense arc_easy");
  EXPECT_EQ(asked[1], "dense piqa");
  const std::string text = report::results_text(results);
  penstock::testing::expect_says(text, {"Zero-shot accuracy, %", "guessing", "45.50",
                                        "No run can be told from guessing on: arc_easy."});
  EXPECT_EQ(report::results_text(read_results(folder.path("out/results.json"))), text);

  // A new task is asked alone. A task that the study no longer lists leaves the rows.
  ask(head + "tasks = [\"piqa\", \"sciq\"]\n");
  const auto more = run_study(read_study(file), options, answering(second, again)).results;
  EXPECT_EQ(again.size(), 12u);
  EXPECT_EQ(again[0], "dense sciq");
  ASSERT_EQ(more.rows[0].measured["tasks"].size(), 2u);
  EXPECT_EQ(more.rows[0].measured["tasks"][0]["task"], "piqa");
  EXPECT_EQ(more.rows[0].measured["tasks"][1]["task"], "sciq");
}

TEST_F(TasksMeasurement, AsksAgainWhereDataOrExamplesChanged) {
  std::filesystem::create_directories(folder.path("rows"));
  write_text(folder.path("rows/arc_easy.jsonl"), "one");
  write_text(folder.path("rows/arc_easy_train.jsonl"), "two");
  std::vector<std::string> asked;
  const auto times_asked = [&](const std::string& keys) {
    ask("tasks = [\"arc_easy\"]\ntask_data = \"" + folder.path("rows") + "\"\n" + keys);
    const std::int64_t shots = keys.empty() ? 0 : 2;
    FakeTrainer trainer;
    StudyHooks hooks = trainer.hooks();
    hooks.measure = [&](const Measurement&, const FinishedRun& run, const Work& work) {
      asked.push_back(run.variant);
      return json{
          {"task", work.asked["task"]},
          {"protocol", "lm-eval"},
          {"version", work.asked["version"]},
          {"checkpoint", word(run.checkpoint)},
          {"data", tasks::data_sum(tasks::find_task("arc_easy", tasks::TaskProtocol::kLmEval),
                                   folder.path("rows"), shots > 0)},
          {"fewshot", shots},
          {"fewshot_seed", keys.find("seed") == keys.npos ? 1234 : 5},
          {"acc", 0.3}};
    };
    asked.clear();
    run_study(read_study(file), options, hooks);
    return asked.size();
  };
  EXPECT_EQ(times_asked(""), 12u);
  EXPECT_EQ(times_asked(""), 0u);
  write_text(folder.path("rows/arc_easy_train.jsonl"), "of examples alone");
  EXPECT_EQ(times_asked(""), 0u);
  write_text(folder.path("rows/arc_easy.jsonl"), "other");
  EXPECT_EQ(times_asked(""), 12u);
  EXPECT_EQ(times_asked("task_fewshot = 2\n"), 12u);
  EXPECT_EQ(times_asked("task_fewshot = 2\n"), 0u);
  write_text(folder.path("rows/arc_easy_train.jsonl"), "other");
  EXPECT_EQ(times_asked("task_fewshot = 2\n"), 12u);
  EXPECT_EQ(times_asked("task_fewshot = 2\ntask_fewshot_seed = 5\n"), 12u);
  // Without the data the kept rows are shown unchanged.
  std::filesystem::remove_all(folder.path("rows"));
  EXPECT_EQ(times_asked("task_fewshot = 2\ntask_fewshot_seed = 5\n"), 0u);
}

TEST_F(TasksMeasurement, ShowsTheIntervalOfASingleRunAndTheWidest) {
  ask("tasks = [\"piqa\"]\ntask_data = \"data\"\n");
  const auto text_of = [&](std::vector<std::int64_t> seeds) {
    FakeTrainer trainer;
    StudyHooks hooks = trainer.hooks();
    hooks.measure = [&](const Measurement&, const FinishedRun& run, const Work& work) {
      return json{{"task", "piqa"},
                  {"protocol", "lm-eval"},
                  {"version", work.asked["version"]},
                  {"checkpoint", word(run.checkpoint)},
                  {"acc", 0.5},
                  {"acc_low", 0.4},
                  {"acc_high", run.variant == "remoe" ? 0.625 : 0.6}};
    };
    StudyConfig read = read_study(file);
    read.seeds = std::move(seeds);
    return report::results_text(run_study(read, options, hooks).results, 200);
  };
  const std::string single = text_of({1});
  penstock::testing::expect_says(single, {"50.00 [40.00, 60.00]", "50.00 [40.00, 62.50]"});
  const std::string several = text_of({1, 2});
  EXPECT_EQ(several.find("[40.00"), std::string::npos) << several;
  penstock::testing::expect_says(several, {"± 12.50"});
}

TEST_F(TasksMeasurement, TwoVersionsAreTwoTasksAndARefusalIsAResult) {
  ask("task_data = \"data\"\ntasks = [\"race\", \"race@2.0\"]\n");
  FakeTrainer first, second;
  std::vector<std::string> asked;
  const auto answer = [&asked](const Measurement&, const FinishedRun& run, const Work& work) {
    asked.push_back(run.variant + " " + work.asked["version"].get<std::string>());
    json out = {{"task", work.asked["task"]},
                {"version", work.asked["version"]},
                {"protocol", "lm-eval"},
                {"checkpoint", word(run.checkpoint)},
                {"acc", 0.3},
                {"is_guessing", true}};
    if (run.variant == "topk") out["refused"] = "a choice is longer than the window";
    return out;
  };
  StudyHooks hooks = first.hooks();
  hooks.measure = answer;
  const auto results = run_study(read_study(file), options, hooks).results;
  ASSERT_EQ(asked.size(), 24u);
  EXPECT_EQ(asked[0], "dense 3.0");
  EXPECT_EQ(asked[1], "dense 2.0");
  ASSERT_EQ(results.rows[0].measured["tasks"].size(), 2u);
  const std::string text = report::results_text(results, 200);
  penstock::testing::expect_says(text,
                                 {"race@3.0", "race@2.0", "race: not asked: a choice is longer"});
  // Nothing is asked again, not even a refused task.
  StudyHooks again = second.hooks();
  again.measure = answer;
  run_study(read_study(file), options, again);
  EXPECT_EQ(asked.size(), 24u);
}

TEST_F(TasksMeasurement, MistakesAreSaidWhenTheStudyIsRead) {
  const auto error_of = [&](const std::string& head) {
    ask(head);
    return penstock::testing::error_or("", [&] { read_study(file); });
  };
  EXPECT_EQ(error_of("tasks = [\"arc_easy\"]\ntask_data = \"data\"\n"), "");
  penstock::testing::expect_says(error_of("tasks = [\"arc_easy\"]\n"), {"task_data"});
  penstock::testing::expect_says(error_of("tasks = [\"arc_eazy\"]\ntask_data = \"data\"\n"),
                                 {"arc_easy"});
}

}  // namespace
}  // namespace penstock::study
