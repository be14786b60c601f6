// Runs of a study that diverge. They are recorded and shown, and are trained again only on request.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/study_runner.h"
#include "tests/base/error_of.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using testing::FakeTrainer;
using testing::read_text;
using testing::StudyRunner;
using testing::write_text;

TEST_F(StudyRunner, ARunThatDivergesIsRecordedAndTheOthersGoOn) {
  FakeTrainer trainer;
  trainer.diverges = "remoe 2";
  const StudyOutcome outcome = run(trainer);
  EXPECT_FALSE(outcome.interrupted);
  // The diverged run has no row, and neither has topk-matched, whose steps depend on it.
  EXPECT_EQ(outcome.results.rows.size(), 10u);
  ASSERT_EQ(outcome.results.diverged.size(), 1u);
  const DivergedRun& diverged = outcome.results.diverged[0];
  EXPECT_EQ(diverged.variant, "remoe");
  EXPECT_EQ(diverged.seed, 2);
  penstock::testing::expect_says(diverged.reason, {"the loss is nan"});
  // The results' text, JSON and page report the divergence.
  const std::string text = report::results_text(outcome.results);
  penstock::testing::expect_says(text, {"diverged: " + diverged.label + ", seed 2: "});
  // Its row counts two finished seeds and one diverged seed.
  penstock::testing::expect_says(text, {"2 + 1 diverged"});
  const StudyResults read = read_results(folder.path("out/results.json"));
  ASSERT_EQ(read.diverged.size(), 1u);
  EXPECT_EQ(read.diverged[0].reason, diverged.reason);
  penstock::testing::expect_says(read_text(folder.path("out/report.html")), {"diverged: "});
}

TEST_F(StudyRunner, ADivergedRunIsTrainedAgainOnlyWhenAskedOrEdited) {
  FakeTrainer first, second, shown, edited, retried;
  options.kept_rows = folder.path("rows.json");
  first.diverges = "remoe 2";
  EXPECT_EQ(run(first).left_out, 1);  // topk-matched of the same seed
  StudyOptions elsewhere = options;   // there only the kept rows know of the divergence
  elsewhere.output = folder.path("elsewhere");
  for (const StudyOptions& how : {options, elsewhere}) {
    const StudyOutcome again = run(second, how);
    EXPECT_TRUE(second.trained.empty());
    EXPECT_EQ(again.results.rows.size(), 10u);
    ASSERT_EQ(again.results.diverged.size(), 1u);
    penstock::testing::expect_says(again.results.diverged[0].reason, {"the loss is nan"});
  }
  options.report_only = true;
  EXPECT_EQ(run(shown).results.diverged.size(), 1u);
  options.report_only = false;
  options.retry_diverged = true;
  const StudyOutcome whole = run(retried);
  EXPECT_EQ(retried.trained.size(), 2u);  // the diverged run and the variant that depends on it
  EXPECT_EQ(whole.results.rows.size(), 12u);
  EXPECT_TRUE(whole.results.diverged.empty());
  options.retry_diverged = false;
  EXPECT_TRUE(run(second).results.diverged.empty());
  // Another config is another run.
  write_text(folder.path("remoe.toml"),
             read_text(folder.path("remoe.toml")) + "sampling = \"random\"\n");
  edited.diverges = "remoe 2";
  EXPECT_EQ(run(edited).results.diverged.size(), 1u);
}

TEST_F(StudyRunner, ReportOnlyKeepsDivergencesOfEarlierVersions) {
  FakeTrainer first, shown, trained;
  first.diverges = "remoe 2";
  run(first);
  // Earlier versions wrote no diverged.json and no hash.
  const std::string path = folder.path("out/results.json");
  auto results = nlohmann::json::parse(read_text(path));
  ASSERT_EQ(results["diverged"].size(), 1u);
  results["diverged"][0].erase("config_hash");
  write_text(path, results.dump());
  for (const auto& run : std::filesystem::directory_iterator(folder.path("out/runs")))
    std::filesystem::remove(run.path() / "diverged.json");
  options.report_only = true;
  for (int time = 0; time < 2; ++time) {
    const auto diverged = run(shown).results.diverged;
    ASSERT_EQ(diverged.size(), 1u) << time;
    penstock::testing::expect_says(diverged[0].reason, {"the loss is nan"});
  }
  options.report_only = false;
  EXPECT_TRUE(run(trained).results.diverged.empty());
  EXPECT_EQ(trained.trained.size(), 2u);  // the diverged run and the variant that depends on it
}

TEST_F(StudyRunner, AStudyOfDivergedRunsAloneIsShown) {
  FakeTrainer trainer;
  write_text(folder.path("like.toml"), "like = \"study.toml\"\nonly = [\"remoe\"]\nseeds = [2]\n");
  file = folder.path("like.toml");
  trainer.diverges = "remoe 2";
  const StudyOutcome outcome = run(trainer);
  EXPECT_TRUE(outcome.results.rows.empty());
  penstock::testing::expect_says(read_text(folder.path("out/results.txt")), {"0 + 1 diverged"});
  penstock::testing::expect_says(read_text(folder.path("out/report.html")), {"diverged: "});
}

TEST_F(StudyRunner, ADivergedRunOfAnotherStudysFolderIsNotTrainedAgain) {
  FakeTrainer first, second;
  first.diverges = "remoe 2";
  options.output = folder.path("fake");
  run(first);
  write_text(folder.path("like.toml"), "like = \"study.toml\"\nonly = [\"remoe\"]\n");
  file = folder.path("like.toml");
  options.output = folder.path("like");
  const StudyOutcome outcome = run(second);
  EXPECT_TRUE(second.trained.empty());
  EXPECT_EQ(outcome.results.rows.size(), 2u);
  EXPECT_EQ(outcome.results.diverged.size(), 1u);
}

}  // namespace
}  // namespace penstock::study
