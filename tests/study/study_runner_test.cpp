// What a study runs, what it does not repeat, and what it keeps.
#include "penstock/study/study_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fixture.h"
#include "penstock/base/error.h"
#include "penstock/report/report.h"
#include "penstock/study/results_file.h"
#include "penstock/study/run_plan.h"

namespace penstock::study {
namespace {

using testing::FakeTrainer;
using testing::read_text;
using testing::TemporaryDirectory;
using testing::write_fake_study;
using testing::write_text;

struct StudyRunner : ::testing::Test {
  TemporaryDirectory folder;
  std::string file = write_fake_study(folder.path());
  StudyOptions options{.output = folder.path("out"), .command = "penstock study study.toml"};
  StudyOutcome run(FakeTrainer& trainer, const StudyOptions& how) {
    return run_study(read_study(file), how, trainer.hooks());
  }
  StudyOutcome run(FakeTrainer& trainer) { return run(trainer, options); }
};

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
  EXPECT_EQ(outcome.results.rows[3].variant, "topk");  // rows: the file's order
  EXPECT_FALSE(outcome.interrupted);
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
  try {
    run_study(read_study(file), options, hooks);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "variant remoe: training takes 9 GiB");
  }
  EXPECT_EQ(checked, (std::vector<std::string>{"dense", "topk", "topk", "remoe"}));
  EXPECT_TRUE(trainer.trained.empty());
  // What is finished needs no memory, and a report trains nothing.
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

TEST_F(StudyRunner, MatchesTheFlopsThatWereReallySpent) {
  FakeTrainer trainer;
  const auto rows = run(trainer).results.rows;
  for (std::size_t seed = 0; seed < 3; ++seed) {
    const RunRow &matched = rows[6 + seed], &remoe = rows[9 + seed];
    ASSERT_EQ(matched.variant, "topk-matched");
    ASSERT_EQ(remoe.variant, "remoe");
    EXPECT_EQ(matched.seed, remoe.seed);
    EXPECT_GT(matched.steps, 400);  // about 3 extra experts over the first 85 of 300 steps
    EXPECT_NEAR(matched.total_flops, remoe.total_flops, 50);  // half of a step's 100
  }
}

TEST_F(StudyRunner, MatchedStepsRoundToTheNearest) {
  const auto hundred = [](std::int64_t) { return 100.0; };
  EXPECT_EQ(matched_steps(1000, 300, hundred), 10);
  EXPECT_EQ(matched_steps(1049, 300, hundred), 10);
  EXPECT_EQ(matched_steps(1051, 300, hundred), 11);
  EXPECT_EQ(matched_steps(1, 300, hundred), 1);
  EXPECT_THROW(matched_steps(0, 300, hundred), Error);
}

/// 100 steps of 600 and all others of 100, as with a near-dense start: N·(100 + 50000/N) = 130000.
TEST_F(StudyRunner, MatchedStepsFollowAScheduleOfTheRunsLength) {
  const auto near_dense = [](std::int64_t steps) {
    const std::int64_t first = std::min<std::int64_t>(steps, 100);
    return static_cast<double>(first * 600 + (steps - first) * 100) / static_cast<double>(steps);
  };
  EXPECT_EQ(matched_steps(130000, 300, near_dense), 800);
  EXPECT_EQ(matched_steps(130000, 5, near_dense), 800);
  // From 10 it goes to 100 and back, whose runs spend 90 and 9000; 900 is asked for.
  const auto round = [](std::int64_t steps) { return steps < 50 ? 9.0 : 90.0; };
  EXPECT_EQ(matched_steps(900, 10, round), 10);
}

TEST_F(StudyRunner, AMatchedRunHasTheStepsThatItsOwnScheduleAllows) {
  FakeTrainer trainer;
  StudyHooks hooks = trainer.hooks();
  std::int64_t asked_last = 0;
  hooks.flops_per_step = [&](const ConfigNode& recipe) {
    asked_last = std::get<std::int64_t>(recipe.find("train")->find("steps")->value());
    return 100.0 + 20000.0 / static_cast<double>(asked_last);
  };
  const auto rows = run_study(read_study(file), options, hooks).results.rows;
  const RunRow &matched = rows[6], &remoe = rows[9];
  ASSERT_EQ(matched.variant, "topk-matched");
  // Rounded once more on the way: each N whose own mean gives N again will do.
  EXPECT_NEAR(static_cast<double>(matched.steps), (remoe.total_flops - 20000) / 100, 1);
  EXPECT_EQ(asked_last, rows[8].steps);
}

TEST_F(StudyRunner, DoesNotRepeatFinishedRuns) {
  FakeTrainer first, second;
  run(first);
  const auto outcome = run(second);
  EXPECT_TRUE(second.trained.empty());
  EXPECT_EQ(outcome.results.rows.size(), 12u);
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
  // The same directory, so that the trainer finds its checkpoint.
  int remoe_runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("out/runs")))
    remoe_runs += entry.path().filename().string().starts_with("remoe-seed-1-");
  EXPECT_EQ(remoe_runs, 1);
}

TEST_F(StudyRunner, ARunThatDivergesIsRecordedAndTheOthersGoOn) {
  FakeTrainer trainer;
  trainer.diverges = "remoe 2";
  const StudyOutcome outcome = run(trainer);
  EXPECT_FALSE(outcome.interrupted);
  // Its own row is missing, and that of topk-matched, whose steps follow from it.
  EXPECT_EQ(outcome.results.rows.size(), 10u);
  ASSERT_EQ(outcome.results.diverged.size(), 1u);
  const DivergedRun& diverged = outcome.results.diverged[0];
  EXPECT_EQ(diverged.variant, "remoe");
  EXPECT_EQ(diverged.seed, 2);
  EXPECT_NE(diverged.reason.find("the loss is nan"), std::string::npos);
  // It is told wherever results are.
  const std::string text = report::results_text(outcome.results);
  EXPECT_NE(text.find("diverged: " + diverged.label + ", seed 2: "), std::string::npos) << text;
  EXPECT_NE(text.find("2 + 1 diverged"), std::string::npos) << text;  // seeds of its row
  const StudyResults read = read_results(folder.path("out/results.json"));
  ASSERT_EQ(read.diverged.size(), 1u);
  EXPECT_EQ(read.diverged[0].reason, diverged.reason);
  EXPECT_NE(read_text(folder.path("out/report.html")).find("diverged: "), std::string::npos);
}

TEST_F(StudyRunner, ADivergedRunIsTrainedAgainOnlyWhenAskedOrEdited) {
  FakeTrainer first, second, shown, edited, retried;
  options.kept_rows = folder.path("rows.json");
  first.diverges = "remoe 2";
  EXPECT_EQ(run(first).left_out, 1);  // topk-matched of the same seed
  StudyOptions elsewhere = options;   // only the kept rows know of it there
  elsewhere.output = folder.path("elsewhere");
  for (const StudyOptions& how : {options, elsewhere}) {
    const StudyOutcome again = run(second, how);
    EXPECT_TRUE(second.trained.empty());
    EXPECT_EQ(again.results.rows.size(), 10u);
    ASSERT_EQ(again.results.diverged.size(), 1u);
    EXPECT_NE(again.results.diverged[0].reason.find("the loss is nan"), std::string::npos);
  }
  options.report_only = true;
  EXPECT_EQ(run(shown).results.diverged.size(), 1u);
  options.report_only = false;
  options.retry_diverged = true;
  const StudyOutcome whole = run(retried);
  EXPECT_EQ(retried.trained.size(), 2u);  // it, and the variant that needs it
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
  // They wrote no diverged.json and no hash.
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
    EXPECT_NE(diverged[0].reason.find("the loss is nan"), std::string::npos);
  }
  options.report_only = false;
  EXPECT_TRUE(run(trained).results.diverged.empty());
  EXPECT_EQ(trained.trained.size(), 2u);  // it, and the variant that needs it
}

TEST_F(StudyRunner, AStudyOfDivergedRunsAloneIsShown) {
  FakeTrainer trainer;
  write_text(folder.path("like.toml"), "like = \"study.toml\"\nonly = [\"remoe\"]\nseeds = [2]\n");
  file = folder.path("like.toml");
  trainer.diverges = "remoe 2";
  const StudyOutcome outcome = run(trainer);
  EXPECT_TRUE(outcome.results.rows.empty());
  EXPECT_NE(read_text(folder.path("out/results.txt")).find("0 + 1 diverged"), std::string::npos);
  EXPECT_NE(read_text(folder.path("out/report.html")).find("diverged: "), std::string::npos);
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

TEST_F(StudyRunner, ReportOnlyTrainsNothingAndWritesNothingOfNothing) {
  FakeTrainer trainer, again;
  run(trainer);
  const std::string results = read_text(folder.path("out/results.json"));
  options.report_only = true;
  EXPECT_FALSE(run(again).results.rows.empty());
  EXPECT_TRUE(again.trained.empty());
  // Other runs than those that are there.
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

constexpr const char* kBegun =
    "[upcycle]\nexperts = 8\n"
    "[variants.continued]\nfrom = \"dense\"\nset = {train.steps = 100}\n"
    "[variants.vanilla]\nfrom = \"dense\"\nupcycle = {method = \"vanilla\"}\n";

TEST_F(StudyRunner, BeginsWithAnotherVariantsModelOfTheSameSeed) {
  write_text(file, read_text(file) + kBegun);
  FakeTrainer first, second, third;
  run(first);
  ASSERT_EQ(first.trained.size(), 18u);
  EXPECT_EQ(first.trained[3], "continued 1 100");
  EXPECT_EQ(first.trained[4], "continued 1 300");
  EXPECT_EQ(first.trained[5].substr(0, 7), "topk 1 ");  // the matched one stays last
  ASSERT_EQ(first.begun.size(), 6u);
  EXPECT_TRUE(first.begun[0].starts_with("dense-seed-1-")) << first.begun[0];
  EXPECT_TRUE(first.begun[0].ends_with("|"));
  EXPECT_TRUE(first.begun[3].starts_with("dense-seed-2-"));
  EXPECT_TRUE(first.begun[1].ends_with("|vanilla"));
  const StudyConfig study = read_study(file);
  EXPECT_EQ(std::get<std::int64_t>(study.variants.back().upcycle.find("experts")->value()), 8);
  run(second);
  EXPECT_TRUE(second.trained.empty());
  EXPECT_TRUE(second.begun.empty());
  // Another parent, or another way of upcycling, is another run.
  write_text(folder.path("dense.toml"),
             read_text(folder.path("dense.toml")) + "sampling = \"random\"\n");
  run(third);
  EXPECT_EQ(third.trained.size(), 9u);
  std::string text = read_text(file);
  text.replace(text.find("experts = 8"), 11, "experts = 4");
  write_text(file, text);
  FakeTrainer fourth;
  run(fourth);
  EXPECT_EQ(fourth.trained.size(), 3u);
}

TEST_F(StudyRunner, CoefficientsOfTheModelThatAVariantBeginsWithAreARunOfTheirOwn) {
  const std::string set = "set = {\"model.router.z-loss.coefficient\" = 0}\n";
  write_text(file, read_text(file) + kBegun);
  FakeTrainer first, second;
  run(first);
  write_text(file, read_text(file) + set);
  run(second);
  ASSERT_EQ(second.trained.size(), 3U);  // of that variant alone, a run for each seed
  EXPECT_EQ(second.begun.size(), 3U);
  int tuned = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("out/runs"))) {
    const std::string config = read_text((entry.path() / "config.toml").string());
    if (config.find("[model.router.z-loss]\ncoefficient = 0") == std::string::npos) continue;
    EXPECT_TRUE(entry.path().filename().string().starts_with("vanilla-seed-"));
    EXPECT_NE(config.find("init_from"), std::string::npos);
    ++tuned;
  }
  EXPECT_EQ(tuned, 3);
}

TEST_F(StudyRunner, AModelMayStandForTheVariantThatOthersBeginWith) {
  write_text(file, read_text(file) + kBegun +
                       "[scale.paper]\nfrom = \"models/qwen\"\nseeds = [1]\n[scale.desk]\n");
  FakeTrainer trainer;
  const auto study = read_study(file, {}, "paper");
  EXPECT_EQ(study.variants.size(), 5u);  // without dense
  run_study(study, options, trainer.hooks());
  EXPECT_EQ(trainer.begun, (std::vector<std::string>{"qwen|", "qwen|vanilla"}));
}

TEST_F(StudyRunner, RefusesBeginningsThatCannotBe) {
  const auto error_of = [&](const std::string& more) {
    write_fake_study(folder.path());
    write_text(file, read_text(file) + more);
    try {
      read_study(file);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(error_of("[variants.a]\nfrom = \"b\"\n").find("not a variant"), std::string::npos);
  EXPECT_NE(error_of("[variants.a]\nfrom = \"topk-matched\"\n").find("itself needs"),
            std::string::npos);
  EXPECT_NE(
      error_of("[variants.a]\nfrom = \"dense\"\nmatch_compute = \"topk\"\n").find("match_compute"),
      std::string::npos);
  EXPECT_NE(error_of("[variants.a]\nupcycle = {method = \"vanilla\"}\n").find("from = "),
            std::string::npos);
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
  // The summary's mean is the rows' mean.
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += object["rows"][i]["validation"]["loss"].get<double>();
  EXPECT_NEAR(object["summary"][0]["validation_loss"]["mean"].get<double>(), sum / 3, 1e-12);
  // Losses of the fake seeds differ by 0.004, so their sd is 0.004; both shift alike, so pairs do
  // not.
  EXPECT_NEAR(object["summary"][0]["validation_loss"]["sd"].get<double>(), 0.004, 1e-9);
  EXPECT_NEAR(object["paired"][0]["difference"]["mean"].get<double>(), 0.06, 1e-9);
  EXPECT_NEAR(object["paired"][0]["difference"]["sd"].get<double>(), 0, 1e-9);
}

}  // namespace
}  // namespace penstock::study
