// Variants that depend on another variant's run: they spend the same FLOPs, or begin with its
// model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/file_lock.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/runs/run_plan.h"
#include "penstock/study/runs/run_queue.h"
#include "penstock/study/study_runner.h"
#include "tests/base/error_of.h"
#include "tests/base/home.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using testing::FakeTrainer;
using testing::read_text;
using testing::StudyRunner;
using testing::write_fake_study;
using testing::write_text;

TEST_F(StudyRunner, MatchesTheFlopsThatWereReallySpent) {
  FakeTrainer trainer;
  const auto rows = run(trainer).results.rows;
  for (std::size_t seed = 0; seed < 3; ++seed) {
    const RunRow &matched = rows[6 + seed], &remoe = rows[9 + seed];
    ASSERT_EQ(matched.variant, "topk-matched");
    ASSERT_EQ(remoe.variant, "remoe");
    EXPECT_EQ(matched.seed, remoe.seed);
    EXPECT_GT(matched.steps, 400);  // about 3 extra experts over the first 85 of 300 steps
    EXPECT_NEAR(matched.total_flops, remoe.total_flops, 50);  // half of a step's 100 FLOPs
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

/// 100 steps cost 600 FLOPs and all others 100, as with a near-dense start. N steps cost N·(100 +
/// 50000/N) = 130000.
TEST_F(StudyRunner, MatchedStepsFollowAScheduleOfTheRunsLength) {
  const auto near_dense = [](std::int64_t steps) {
    const std::int64_t first = std::min<std::int64_t>(steps, 100);
    return static_cast<double>(first * 600 + (steps - first) * 100) / static_cast<double>(steps);
  };
  EXPECT_EQ(matched_steps(130000, 300, near_dense), 800);
  EXPECT_EQ(matched_steps(130000, 5, near_dense), 800);
  // The search alternates between 10 and 100 steps, which cost 90 and 9000 FLOPs; 900 is the
  // target.
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
  // The number of steps is rounded again on the way, so every N that reproduces itself is accepted.
  EXPECT_NEAR(static_cast<double>(matched.steps), (remoe.total_flops - 20000) / 100, 1);
  EXPECT_EQ(asked_last, rows[8].steps);
}

/// Stands for `--jobs 1`: gives each run to `train` when it may begin.
bool train_one_by_one(const std::vector<RunToTrain>& runs, const SideBySide& study,
                      const std::function<void(const RunKey&)>& train) {
  RunQueue queue(runs);
  while (const auto next = queue.next()) {
    if (study.may_begin(next->key)) {
      train(next->key);
      study.ended(std::span(&next->key, 1));
    }
    queue.ended(next->key);
  }
  return true;
}

TEST_F(StudyRunner, RunsSideBySideWaitForTheRunsThatTheyNeedAlone) {
  FakeTrainer trainer;
  trainer.diverges = "remoe 2";
  std::vector<RunToTrain> asked;
  std::vector<RunKey> trained;
  std::vector<std::size_t> rows;
  StudyHooks hooks = trainer.hooks();
  hooks.train_side_by_side = [&](const std::vector<RunToTrain>& runs, const SideBySide& study) {
    asked = runs;
    return train_one_by_one(runs, study, [&](const RunKey& run) {
      const std::string results = folder.path("out/results.json");
      rows.push_back(trained.empty() ? 0
                                     : nlohmann::json::parse(read_text(results))["rows"].size());
      trained.push_back(run);
      StudyOptions alone = options;
      alone.only = run;
      run_study(read_study(file), alone, trainer.hooks());
    });
  };
  const StudyOutcome outcome = run_study(read_study(file), options, hooks);
  ASSERT_EQ(asked.size(), 12U);
  for (const RunToTrain& run : asked) {
    const std::vector<RunKey> remoe{{"remoe", run.key.second}};
    EXPECT_EQ(run.after, run.key.first == "topk-matched" ? remoe : std::vector<RunKey>{})
        << run.key.first;
  }
  EXPECT_EQ(asked[3].key, RunKey("topk-matched", 1));  // a seed is complete before the next begins
  ASSERT_EQ(trained.size(), 11U);                      // without the one whose need diverged
  EXPECT_EQ(rows[1], 1U);                              // each run is published when it ends
  EXPECT_EQ(rows[10], 9U);
  EXPECT_EQ(outcome.results.rows.size(), 10U);
  EXPECT_EQ(outcome.results.diverged.size(), 1U);
  EXPECT_EQ(outcome.left_out, 1);
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
  EXPECT_EQ(first.trained[5].substr(0, 7), "topk 1 ");  // the matched run stays last
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
  // Another parent or other upcycling options are another run.
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

TEST_F(StudyRunner, TheFolderIsLockedWhileTheModelThatARunBeginsWithIsMade) {
  write_text(file, read_text(file) + kBegun);
  FakeTrainer trainer;
  StudyHooks hooks = trainer.hooks();
  int made = 0;
  hooks.begin = [&](const std::string&, const ConfigNode&, const ConfigNode&,
                    const std::string& directory) {
    const auto run = std::filesystem::path(directory).parent_path();
    penstock::testing::expect_error([&] { FileLock lock((run / ".lock").string()); },
                                    {"another process is working in this directory"});
    std::filesystem::create_directories(directory);
    ++made;
  };
  run_study(read_study(file), options, hooks);
  EXPECT_EQ(made, 6);
}

TEST_F(StudyRunner, CoefficientsOfTheModelThatAVariantBeginsWithAreARunOfTheirOwn) {
  const std::string set = "set = {\"model.router.z-loss.coefficient\" = 0}\n";
  write_text(file, read_text(file) + kBegun);
  FakeTrainer first, second;
  run(first);
  write_text(file, read_text(file) + set);
  run(second);
  ASSERT_EQ(second.trained.size(), 3U);  // only this variant, once per seed
  EXPECT_EQ(second.begun.size(), 3U);
  int tuned = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("out/runs"))) {
    const std::string config = read_text((entry.path() / "config.toml").string());
    if (config.find("[model.router.z-loss]\ncoefficient = 0") == std::string::npos) continue;
    EXPECT_TRUE(entry.path().filename().string().starts_with("vanilla-seed-"));
    penstock::testing::expect_says(config, {"init_from"});
    ++tuned;
  }
  EXPECT_EQ(tuned, 3);
}

/// The line of a variant that is upcycled with a text of its own.
std::string with_text(const std::string& text) {
  return "[variants.heads]\nfrom = \"dense\"\nupcycle = {method = \"vanilla\", calibration = \"" +
         text + "\"}\n";
}

TEST_F(StudyRunner, AnUpcycledRunIsNamedByTheContentOfItsCalibrationText) {
  const std::string text = folder.path("words.txt");
  const std::string before = read_text(file);
  write_text(text, "some words");
  write_text(file, before + with_text(text));
  FakeTrainer first, other, again, moved;
  run(first);
  EXPECT_EQ(first.trained.size(), 15u);
  write_text(text, "other words");
  run(other);
  EXPECT_EQ(other.trained.size(), 3u);  // once per seed
  EXPECT_EQ(other.begun.size(), 3u);
  write_text(text, "some words");
  EXPECT_EQ(run(again).results.rows.size(), 15u);
  EXPECT_TRUE(again.trained.empty());
  write_text(folder.path("moved.txt"), "some words");
  write_text(file, before + with_text(folder.path("moved.txt")));
  EXPECT_EQ(run(moved).results.rows.size(), 15u);
  EXPECT_TRUE(moved.trained.empty());
  std::filesystem::remove(folder.path("moved.txt"));
  penstock::testing::expect_says(
      penstock::testing::error_of([&] { run(moved); }),
      {"study.toml:", "upcycle.calibration: ", "moved.txt: there is no such text"});
}

TEST_F(StudyRunner, ACalibrationTextMayLieInTheHomeDirectory) {
  const penstock::testing::Home home(folder.path().c_str());
  write_text(folder.path("words.txt"), "some words");
  write_text(file, read_text(file) + with_text("~/words.txt"));
  FakeTrainer trainer;
  EXPECT_EQ(run(trainer).results.rows.size(), 15u);
}

/// The hash of a run before the calibration text's content counted: of the recipe, of the parent
/// and of the [upcycle] as it is written.
TEST_F(StudyRunner, RunsThatWereNamedByThePathOfTheCalibrationTextAreTakenUp) {
  write_text(folder.path("words.txt"), "some words");
  write_text(file, read_text(file) + with_text(folder.path("words.txt")));
  FakeTrainer first, second, third;
  options.kept_rows = folder.path("rows.json");
  run(first);
  const StudyConfig study = read_study(file);
  const auto hash_of = [&](const char* name, std::int64_t seed) {
    const auto variant = std::ranges::find(study.variants, name, &Variant::name);
    return config_hash(with_seed(*variant, seed), first.corpus);
  };
  auto rows = nlohmann::json::parse(read_text(options.kept_rows));
  for (auto& row : rows["rows"]) {
    if (row["variant"].get<std::string>() != "heads") continue;
    const auto seed = row["seed"].get<std::int64_t>();
    const std::string earlier =
        fmt::format("{:016x}", fnv1a(hash_of("heads", seed) + "\n" + hash_of("dense", seed) + "\n" +
                                     "calibration = \"" + folder.path("words.txt") +
                                     "\"\nmethod = \"vanilla\"\n"));
    const std::string stem = folder.path(fmt::format("out/runs/heads-seed-{}-", seed));
    std::filesystem::rename(stem + row["config_hash"].get<std::string>(), stem + earlier);
    row["config_hash"] = earlier;
  }
  write_text(folder.path("earlier.json"), rows.dump());
  std::filesystem::remove(folder.path("words.txt"));  // those versions did not read it again
  options.kept_rows = "";
  EXPECT_EQ(run(second).results.rows.size(), 15u);
  EXPECT_TRUE(second.trained.empty());
  write_text(folder.path("words.txt"), "some words");
  options = {.output = folder.path("elsewhere"), .kept_rows = folder.path("earlier.json")};
  EXPECT_EQ(run(third).results.rows.size(), 15u);
  EXPECT_TRUE(third.trained.empty());
}

/// A program that spreads the runs over machines must not take such a call for a finished run.
TEST_F(StudyRunner, ASingleRunIsRefusedBeforeTheRunThatItNeeds) {
  write_text(file, read_text(file) + kBegun);
  FakeTrainer trainer;
  const auto only = [&](const char* variant) {
    StudyOptions how = options;
    how.only = RunKey{variant, 2};
    run(trainer, how);
  };
  for (const auto& [variant, needed] :
       {std::pair{"topk-matched", "remoe"}, std::pair{"vanilla", "dense"}}) {
    penstock::testing::expect_says(
        penstock::testing::error_of([&] { only(variant); }),
        {"options.only", variant, std::string("the run of ") + needed, "train that run first"});
    EXPECT_TRUE(trainer.trained.empty());
    only(needed);
    only(variant);
    EXPECT_EQ(trainer.trained.size(), 2u);
    trainer.trained.clear();
  }
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
    return penstock::testing::error_or("", [&] { read_study(file); });
  };
  penstock::testing::expect_says(error_of("[variants.a]\nfrom = \"b\"\n"), {"not a variant"});
  penstock::testing::expect_says(error_of("[variants.a]\nfrom = \"topk-matched\"\n"),
                                 {"itself needs"});
  penstock::testing::expect_says(
      error_of("[variants.a]\nfrom = \"dense\"\nmatch_compute = \"topk\"\n"), {"match_compute"});
  penstock::testing::expect_says(error_of("[variants.a]\nupcycle = {method = \"vanilla\"}\n"),
                                 {"from = "});
}

}  // namespace
}  // namespace penstock::study
