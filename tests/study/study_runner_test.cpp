// The study runner: the runs that it trains, the runs that it reuses, and the files that it keeps.
#include "penstock/study/study_runner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/study/runs/results_file.h"
#include "tests/base/error_of.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using testing::FakeTrainer;
using testing::read_text;
using testing::StudyRunner;
using testing::write_text;

TEST_F(StudyRunner, RunsSeedBySeedWithMatchedVariantsLast) {
  FakeTrainer trainer;
  const StudyOutcome outcome = run(trainer);
  ASSERT_EQ(trainer.trained.size(), 12u);
  EXPECT_EQ(trainer.trained[0], "dense 1 300");
  EXPECT_EQ(trainer.trained[1], "topk 1 300");
  EXPECT_EQ(trainer.trained[2], "remoe 1 300");
  EXPECT_EQ(trainer.trained[3].substr(0, 7), "topk 1 ");
  EXPECT_EQ(trainer.trained[4], "dense 2 300");
  ASSERT_EQ(outcome.results.rows.size(), 12u);
  EXPECT_EQ(outcome.results.rows[3].variant, "topk");  // rows follow the file's order
  EXPECT_FALSE(outcome.interrupted);
}

TEST_F(StudyRunner, MakesNoFolderForARunOrAReportThatItRefuses) {
  FakeTrainer trainer;
  StudyOptions unknown_variant = options, unknown_seed = options, no_runs = options;
  unknown_variant.only = RunKey{"lory", 1};
  unknown_seed.only = RunKey{"remoe", 9};
  no_runs.report_only = true;
  for (const auto& [wrong, said] :
       {std::pair<StudyOptions, const char*>{unknown_variant, "no variant of this study is called"},
        {unknown_seed, "this study has no seed 9"},
        {no_runs, "holds no finished run"}})
    penstock::testing::expect_says(penstock::testing::error_of([&] { run(trainer, wrong); }),
                                   {said});
  EXPECT_FALSE(std::filesystem::exists(options.output));
  EXPECT_TRUE(trainer.trained.empty());
  StudyOptions known = options;
  known.only = RunKey{"remoe", 1};
  run(trainer, known);
  EXPECT_EQ(trainer.trained, (std::vector<std::string>{"remoe 1 300"}));
}

TEST_F(StudyRunner, MemoryIsCheckedForEveryVariantBeforeAnyIsTrained) {
  FakeTrainer trainer;
  StudyHooks hooks = trainer.hooks();
  std::vector<std::string> checked;
  hooks.check_fits = [&](const ConfigNode& recipe) {
    checked.push_back(
        std::get<std::string>(recipe.find("model")->find("router")->find("method")->value()));
    if (checked.back() == "remoe") fail("training takes 9 GiB");
  };
  EXPECT_EQ(penstock::testing::error_of([&] { run_study(read_study(file), options, hooks); }),
            "variant remoe: training takes 9 GiB");
  EXPECT_EQ(checked, (std::vector<std::string>{"dense", "topk", "topk", "remoe"}));
  EXPECT_TRUE(trainer.trained.empty());
  // Finished runs need no memory, and a report trains nothing.
  run_study(read_study(file), options, trainer.hooks());
  EXPECT_NO_THROW(run_study(read_study(file), options, hooks));
}

TEST_F(StudyRunner, ADamagedResultIsPutAsideAndItsRunTakenUpAgain) {
  FakeTrainer trainer;
  run(trainer);
  std::vector<std::filesystem::path> results;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path("out")))
    if (entry.path().filename() == "finished.json") results.push_back(entry.path());
  ASSERT_EQ(results.size(), 12u);
  const std::string whole = read_text(results.front().string());
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), std::string("{}")}) {
    write_text(results.front().string(), damaged);
    StudyOptions report = options;
    report.report_only = true;
    EXPECT_THROW(run(trainer, report), Error);
    trainer.trained.clear();
    const StudyOutcome outcome = run(trainer);
    EXPECT_EQ(trainer.trained.size(), 1u);
    EXPECT_EQ(outcome.results.rows.size(), 12u);
    EXPECT_EQ(read_text(results.front().string() + ".damaged"), damaged);
    EXPECT_EQ(read_text(results.front().string()), whole);
  }
}

TEST_F(StudyRunner, DoesNotRepeatFinishedRuns) {
  FakeTrainer first, second;
  run(first);
  const auto outcome = run(second);
  EXPECT_TRUE(second.trained.empty());
  EXPECT_EQ(outcome.results.rows.size(), 12u);
}

TEST_F(StudyRunner, ChosenPairsTrainNothing) {
  FakeTrainer first, second;
  const auto plain = run(first).results;
  ask("pairs = [[\"remoe\", \"topk\"], [\"remoe\", \"dense\"], [\"topk\", \"dense\"]]\n");
  const auto chosen = run(second).results;
  EXPECT_TRUE(second.trained.empty());
  ASSERT_EQ(chosen.rows.size(), plain.rows.size());
  for (std::size_t i = 0; i < plain.rows.size(); ++i)
    EXPECT_EQ(chosen.rows[i].config_hash, plain.rows[i].config_hash);
  const auto pairs = nlohmann::json::parse(read_text(folder.path("out/results.json")))["pairs"];
  ASSERT_EQ(pairs.size(), 3u);
  // The fake losses are those of dense, 0.06 lower for topk and 0.09 lower for remoe. A step of
  // remoe costs more until its sparsity is there.
  const std::vector<double> means{-0.03, -0.09, -0.06};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(pairs[i]["validation_loss"]["difference"]["mean"].get<double>(), means[i], 1e-9);
    EXPECT_EQ(pairs[i]["no_order"], i < 2 ? nlohmann::json("compute differs") : nlohmann::json());
  }
  for (const char* name : {"out/results.txt", "out/report.html"})
    penstock::testing::expect_says(read_text(folder.path(name)), {"differences of pairs"});
}

TEST_F(StudyRunner, RepeatsWhatAnEditedRecipeOrCorpusChanges) {
  FakeTrainer first, second, third;
  run(first);
  write_text(folder.path("dense.toml"),
             read_text(folder.path("dense.toml")) + "sampling = \"random\"\n");
  run(second);
  EXPECT_EQ(second.trained,
            (std::vector<std::string>{"dense 1 300", "dense 2 300", "dense 3 300"}));
  third.corpus = "decaf";
  run(third);
  EXPECT_EQ(third.trained.size(), 12u);
}

TEST_F(StudyRunner, StopsAtAnInterruptAndResumesThere) {
  FakeTrainer first, second;
  first.interrupt_at = 2;
  const auto stopped = run(first);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(first.trained.size(), 3u);
  EXPECT_EQ(stopped.results.rows.size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(folder.path("out/report.html")));
  const auto outcome = run(second);
  EXPECT_FALSE(outcome.interrupted);
  ASSERT_EQ(second.trained.size(), 10u);
  EXPECT_EQ(second.trained[0], first.trained[2]);
  // The run continues in the same directory, where the trainer finds its checkpoint.
  int remoe_runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("out/runs")))
    remoe_runs += entry.path().filename().string().starts_with("remoe-seed-1-");
  EXPECT_EQ(remoe_runs, 1);
}

TEST_F(StudyRunner, ReportOnlyTrainsNothingAndWritesNothingOfNothing) {
  FakeTrainer trainer, again;
  run(trainer);
  const std::string results = read_text(folder.path("out/results.json"));
  options.report_only = true;
  EXPECT_FALSE(run(again).results.rows.empty());
  EXPECT_TRUE(again.trained.empty());
  // The study now asks for runs that do not exist.
  std::string other = read_text(file);
  other.replace(other.find("[1, 2, 3]"), 9, "[7]");
  write_text(file, other);
  EXPECT_THROW(run(again), Error);
  EXPECT_TRUE(again.trained.empty());
  EXPECT_EQ(read_text(folder.path("out/results.json")), results);
}

TEST_F(StudyRunner, ChecksEveryRecipeBeforeTrainingAny) {
  write_text(folder.path("remoe.toml"), "[model]\nlayers = 4\n");
  FakeTrainer trainer;
  EXPECT_THROW(run(trainer), Error);
  EXPECT_TRUE(trainer.trained.empty());
}

TEST_F(StudyRunner, KeptRowsSpareRunsInAnotherFolder) {
  FakeTrainer first, second, third;
  options.kept_rows = folder.path("rows.json");
  first.interrupt_at = 5;
  run(first);
  StudyOptions elsewhere = options;
  elsewhere.output = folder.path("elsewhere");
  const auto outcome = run(second, elsewhere);
  EXPECT_EQ(second.trained.size(), 7u);  // five of twelve were kept
  EXPECT_EQ(outcome.results.rows.size(), 12u);
  EXPECT_EQ(read_kept_runs(options.kept_rows).rows.size(), 12u);
  elsewhere.output = folder.path("a-third-place");
  EXPECT_EQ(run(third, elsewhere).results.rows.size(), 12u);
  EXPECT_TRUE(third.trained.empty());
}

TEST_F(StudyRunner, WritesResultsOfTheDocumentedForm) {
  FakeTrainer trainer;
  run(trainer);
  const auto object = nlohmann::json::parse(read_text(folder.path("out/results.json")));
  EXPECT_EQ(object["format"], "penstock-study");
  EXPECT_EQ(object["version"], 1);
  EXPECT_EQ(object["rows"].size(), 12u);
  EXPECT_EQ(object["summary"].size(), 4u);
  EXPECT_EQ(object["paired"].size(), 6u);
  const auto& row = object["rows"][0];
  for (const char* key : {"variant", "seed", "config_hash", "finished", "steps", "total_flops",
                          "validation", "test", "curves", "settings"})
    EXPECT_TRUE(row.contains(key)) << key;
  // The summary's mean equals the mean of the rows.
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += object["rows"][i]["validation"]["loss"].get<double>();
  EXPECT_NEAR(object["summary"][0]["validation_loss"]["mean"].get<double>(), sum / 3, 1e-12);
  // The fake seeds' losses differ by 0.004, so their sd is 0.004. Both variants shift alike with
  // the seed, so the paired differences have the sd 0.
  EXPECT_NEAR(object["summary"][0]["validation_loss"]["sd"].get<double>(), 0.004, 1e-9);
  EXPECT_NEAR(object["paired"][0]["difference"]["mean"].get<double>(), 0.06, 1e-9);
  EXPECT_NEAR(object["paired"][0]["difference"]["sd"].get<double>(), 0, 1e-9);
}

}  // namespace
}  // namespace penstock::study
