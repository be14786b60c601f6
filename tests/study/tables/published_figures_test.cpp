// A paper's losses, settling steps and hours beside a study's, in variants and tasks of one scale
// only.
#include "penstock/study/tables/published_figures.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/report/report.h"
#include "penstock/study/config/study_config.h"
#include "penstock/study/runs/results_file.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using testing::FakeTrainer;
using testing::TemporaryDirectory;
using testing::write_text;

TEST(StageHours, AreReadOffTheRunsClock) {
  RunRow row;
  row.curves["seconds"] = {.steps = {1, 10, 20, 100}, .values = {3.6, 36, 72, 720}};
  // Stage II begins with step 11 and stage III with step 16: 10 and 15 steps come before them.
  const auto hours = stage_hours(row, {.sparsifying = 11, .settled = 16});
  ASSERT_TRUE(hours.has_value());
  const std::vector<double> expected = {0.01, 0.005, 0.185, 0.2};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR((*hours)[i], expected[i], 1e-12) << i;
  EXPECT_FALSE(stage_hours(row, {.sparsifying = 11}).has_value());
  EXPECT_FALSE(stage_hours(row, {.sparsifying = 11, .settled = 200}).has_value());
  EXPECT_FALSE(stage_hours(RunRow(), {.sparsifying = 11, .settled = 16}).has_value());
}

using PublishedFigures = testing::StudyRunner;

TEST_F(PublishedFigures, StandBeneathTheVariantThatHasThem) {
  ask("", "published = {loss = 2.032, settled = 110, hours = 120.48}\n");  // for remoe
  FakeTrainer trainer;
  const StudyResults results = run(trainer).results;
  const auto variants = summarize(results.rows);
  const Table losses = published_losses(variants, results.comparison);
  ASSERT_EQ(losses.rows.size(), 5u);  // four variants and the paper's row
  EXPECT_TRUE(losses.rows[4].beneath);
  EXPECT_EQ(losses.rows[4].cells[1].text, "2.032");
  EXPECT_EQ(losses.rows[4].cells[2].text, "110");
  EXPECT_EQ(losses.rows[3].cells[1].text, spread_cell(variants[3].validation_loss, fixed(4)).text);
  // Variants without stages are split at the stages of remoe's run with the same seed.
  const Table hours = published_hours(variants, results.comparison);
  ASSERT_EQ(hours.rows.size(), 5u);
  EXPECT_EQ(hours.rows[4].cells[4].text, "120.48");
  EXPECT_NE(hours.rows[0].cells[1].text, "–");
  const std::string text = report::results_text(results);
  EXPECT_NE(text.find("hours by stage"), std::string::npos) << text;
  EXPECT_EQ(report::results_text(read_results(folder.path("out/results.json"))), text);
}

TEST_F(PublishedFigures, AreNotShownWhereThePaperHasNone) {
  FakeTrainer trainer;
  const StudyResults results = run(trainer).results;
  EXPECT_EQ(report::results_text(results).find("Beside the published"), std::string::npos);
}

TEST(StudyScale, MayHaveVariantsAReferenceAndTasksOfItsOwn) {
  TemporaryDirectory folder;
  write_text(folder.path("a.toml"), "[train]\nsteps = 1\n");
  const std::string study =
      "base = 'a.toml'\nreference = 'wide'\ntasks = ['piqa']\ntask_data = 'rows'\n"
      "[scale.paper]\n[scale.desk]\nonly = ['c', 'a']\nreference = 'a'\ntasks = []\n"
      "[variants.a]\npublished = {piqa = 61.97}\n[variants.wide]\n[variants.c]\n";
  write_text(folder.path("s.toml"), study);
  const StudyConfig desk = read_study(folder.path("s.toml"), {}, "desk"),
                    paper = read_study(folder.path("s.toml"), {}, "paper");
  ASSERT_EQ(desk.variants.size(), 2u);
  EXPECT_EQ(desk.variants[0].name, "c");
  EXPECT_EQ(desk.comparison.reference, "a");
  EXPECT_EQ(desk.comparison.published.at("a").at("piqa"), 61.97);
  EXPECT_EQ(paper.variants.size(), 3u);
  EXPECT_EQ(paper.comparison.reference, "wide");
  write_text(folder.path("s.toml"), study + "published = {race = 28.5}\n");
  EXPECT_THROW(read_study(folder.path("s.toml"), {}, "desk"), Error);
}

}  // namespace
}  // namespace penstock::study
