// A study's other reports: fine-tunings, folded routers, entropies, settings and closed forms.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/report/report.h"
#include "penstock/report/sections.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/tables/by_k_summary.h"
#include "penstock/study/tables/closed_tables.h"
#include "tests/base/error_of.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using testing::FakeTrainer;
using testing::write_text;

constexpr const char* kTasks =
    "[finetune.sst2]\ndata = \"sst\"\ntask = \"sst2\"\nset = {batch = 4, test_k = [8, 16]}\n"
    "published = {batch = 16}\n";

struct StudyReports : testing::StudyRunner {
  StudyOutcome run(FakeTrainer& trainer, const std::vector<std::string>& overrides = {}) {
    return run_study(read_study(file, overrides), options, trainer.hooks());
  }
};

TEST_F(StudyReports, FineTunesEachFinishedRunOnce) {
  ask("", kTasks);
  FakeTrainer first, second, third;
  first.interrupt_finetune_at = 2;
  const StudyOutcome stopped = run(first);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(first.finetuned,
            (std::vector<std::string>{"dense 1 sst2", "topk 1 sst2", "remoe 1 sst2"}));
  const StudyOutcome whole = run(second);
  EXPECT_FALSE(whole.interrupted);
  EXPECT_EQ(second.finetuned.front(), "remoe 1 sst2");
  EXPECT_EQ(second.finetuned.size(), 10u);
  ASSERT_EQ(second.pages.size(), 12u);  // two of them of earlier fine-tunings without a page
  penstock::testing::expect_says(second.pages.back(), {"/finetune/sst2-"});
  options.report_only = true;
  const StudyResults results = run(third).results;
  EXPECT_TRUE(third.finetuned.empty());
  // 0.5 + 0.16 + 0.001·seed has the mean 66.2 % over the seeds; at k = 8 it is 58.2 %. Dense has
  // one value.
  const std::string text = report::results_text(results);
  penstock::testing::expect_says(text,
                                 {"sst2 k=8", "66.20 ± 0.10", "58.20 ± 0.10", "  60.00", "51.00"});
  penstock::testing::expect_says(report::report_page(results),
                                 {"<td>majority class</td><td>51.00</td><td>51.00</td>"});
  // results.json alone gives the same text.
  const StudyResults read = read_results(folder.path("out/results.json"));
  EXPECT_EQ(report::results_text(read), text);
}

TEST_F(StudyReports, OtherSettingsAreAnotherFineTuning) {
  ask("", kTasks);
  FakeTrainer first, second, third;
  run(first);
  run(second, {"finetune.sst2.set.lr=1e-3"});
  EXPECT_TRUE(second.trained.empty());
  EXPECT_EQ(second.finetuned.size(), 12u);
  run(third, {"finetune.sst2.data=elsewhere"});  // the data's path is no setting
  EXPECT_TRUE(third.finetuned.empty());
}

TEST_F(StudyReports, RefusesWhatFineTuningWouldRefuse) {
  const auto error_of = [&](const std::string& tail, const std::vector<std::string>& overrides) {
    ask("", tail);
    return penstock::testing::error_or("", [&] { read_study(file, overrides); });
  };
  penstock::testing::expect_says(error_of("[finetune.a]\nset = {batc = 4}\n", {}), {"batch"});
  penstock::testing::expect_says(error_of("[finetune.a]\ndate = 'x'\n", {}), {"data"});
  penstock::testing::expect_says(error_of(kTasks, {"finetune.sst3.set.lr=1"}), {"sst3"});
  penstock::testing::expect_says(error_of("published = {sst2-k8 = 1.0}\n", {}), {"not shown"});
  EXPECT_EQ(error_of("published = {sst2-k8 = 1.0}\n" + std::string(kTasks), {}), "");
}

TEST_F(StudyReports, FoldedRoutersAreARowOfTheirOwn) {
  ask("eval_k = [1, 4]\n", "fold = true\npublished = {k1 = 1.48}\n");  // for remoe
  FakeTrainer trainer, again;
  const StudyResults results = run(trainer).results;
  const auto folded = std::ranges::count_if(trainer.measured, [](const std::string& line) {
    return line.find(" folded ") != std::string::npos && line.starts_with("remoe ");
  });
  EXPECT_EQ(folded, 3);
  const auto rows = by_k_rows(results.rows);
  ASSERT_EQ(rows.size(), 15u);
  EXPECT_EQ(rows.back().variant, "remoe-folded");
  EXPECT_EQ(measured_k(rows.back())->at(4)->bits_per_byte,
            testing::fake_point("remoe", 3, 4).bits_per_byte);
  penstock::testing::expect_says(report::results_text(results), {"ReMoE, folded"});
  penstock::testing::expect_says(report::report_page(results), {"ReMoE, folded"});
  run(again);
  EXPECT_TRUE(again.measured.empty());
}

TEST_F(StudyReports, EntropiesStandBesideThoseOfStepZeroAndOfThePaper) {
  ask("report = [\"entropy\", \"samples\"]\n",
      "published = {layer0 = 1.4393, layer0-sd = 0.42, layer1 = 0.8894}\n");
  FakeTrainer trainer, again;
  const StudyResults results = run(trainer).results;
  const std::string text = report::results_text(results), page = report::report_page(results);
  // 1 + seed/10 has the mean 1.2 over three seeds, and 2.2 in the second layer.
  for (const char* cell : {"1.2000 ± 0.25", "2.2000 ± 0.25", "2.0000 ± 0.50", "1.4393 ± 0.42",
                           "0.8894", "a dense model has no routers", "1: 90.0"})
    EXPECT_NE(text.find(cell), std::string::npos) << cell << "\n" << text;
  // Layers count from 0, as in analyses, traces and tensor names.
  penstock::testing::expect_says(text, {"layer 0"});
  EXPECT_EQ(text.find("layer 2"), std::string::npos);
  penstock::testing::expect_says(page,
                                 {"<td>1.4393 ± 0.42</td><td>0.8894</td>", "a &lt;token&gt;"});
  run(again);
  EXPECT_TRUE(again.measured.empty());
  EXPECT_EQ(report::results_text(read_results(folder.path("out/results.json"))), text);
}

TEST_F(StudyReports, DamagedDistributionsAreShownAsFarAsTheyGo) {
  ask("report = [\"samples\"]\n", "");
  FakeTrainer trainer;
  StudyResults results = run(trainer).results;
  for (const auto& damaged : {nlohmann::json::array(), nlohmann::json{{0.9}, {0.2, 0.8}}}) {
    for (RunRow& row : results.rows)
      for (auto& sample : row.measured["routers"]["samples"]) sample["probabilities"] = damaged;
    const std::string text = report::results_text(results), page = report::report_page(results);
    EXPECT_EQ(text.find("1: 80.0") != std::string::npos, !damaged.empty()) << text;
    penstock::testing::expect_says(page, {"</html>"});
  }
}

TEST_F(StudyReports, ResultsStandBesideThePublished) {
  ask("published_as = \"zero-shot average, %\"\n", "published = {result = 45.83}\n");  // for remoe
  FakeTrainer trainer;
  const StudyResults results = run(trainer).results;
  const auto section = report::published_results(summarize(results.rows), results.comparison);
  ASSERT_TRUE(section.has_value());
  const Table& table = section->tables.at(0);
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(table.columns[4].title, "published: zero-shot average, %");
  EXPECT_EQ(table.rows[3].cells[4].text, "45.83");
  EXPECT_EQ(table.rows[0].cells[4].text, "–");
  EXPECT_EQ(table.rows[0].cells[1].whole(), "2.2530 ± 0.0040");  // the test split's
  EXPECT_EQ(table.rows[0].cells[2].text, "9.5160");  // from 2.15 + 3.3 e^-(10^0.55) + 0.004·seed
  penstock::testing::expect_says(
      report::results_text(read_results(folder.path("out/results.json"))), {"45.83"});
}

TEST_F(StudyReports, ClosedFormsAndSettingsTrainNothing) {
  // Per token: 4 layers of 2 (4·256² + 3·256·1024) FLOPs, and 2·256·4 for a router of 4 experts.
  write_text(file, std::string("base = \"dense.toml\"\nreport = [\"closed-forms\", \"settings\"]\n"
                               "[variants.dense]\n[variants.topk]\nrecipe = \"topk.toml\"\n"
                               "set = {\"model.moe.experts\" = 4, \"model.router.k\" = 1}\n"
                               "[closed_form.T1]\nof = \"A paper, Table 1\"\ntitle = \"FLOPs\"\n"
                               "unit = \"1e6 FLOPs\"\ndivisor = 1e6\ndigits = 2\n"
                               "cells = [{published = 8.39, remark = \"the router\"}]\n") +
                       kTasks);
  FakeTrainer trainer;
  const StudyOutcome outcome = run(trainer);
  EXPECT_TRUE(trainer.trained.empty());
  EXPECT_EQ(outcome.results.planned_runs, 0);
  const std::string text = report::results_text(outcome.results);
  for (const char* part :
       {"A paper, Table 1: FLOPs (1e6 FLOPs)", "8.40", "agrees", "differs: the router"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  penstock::testing::expect_says(text, {"Settings of the fine-tunings"});
  EXPECT_TRUE(std::filesystem::exists(folder.path("out/report.html")));
  EXPECT_EQ(report::results_text(read_results(folder.path("out/results.json"))), text);
  ask("report = [\"settings\"]\n", "published = {lr = 2.5e-4}\n");
  const auto tables = run(trainer).results.tables;
  EXPECT_TRUE(trainer.trained.empty());
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_EQ(tables[0].rows.size(), 5u);  // four variants and the paper's row
  EXPECT_TRUE(tables[0].rows[4].beneath);
  EXPECT_EQ(tables[0].rows[4].cells[0].text, "paper");
  EXPECT_EQ(tables[0].rows[3].cells[1].text, "corpora/system");
}

TEST_F(StudyReports, RunsOfAnotherStudyServe) {
  FakeTrainer first, second;
  run(first);
  options.output = folder.path("entropy");
  // Rename the output folder to the first study's name, where the second study looks for runs.
  std::filesystem::rename(folder.path("out"), folder.path("fake"));
  write_text(folder.path("entropy.toml"),
             "like = \"study.toml\"\nonly = [\"topk\", \"remoe\"]\nreport = [\"entropy\"]\n"
             "[variants.remoe]\npublished = {layer0 = 1.5}\n");
  file = folder.path("entropy.toml");
  const StudyConfig config = read_study(file);
  EXPECT_EQ(config.name, "entropy");
  EXPECT_EQ(config.variants.size(), 2u);
  EXPECT_EQ(config.variants[1].label, "ReMoE");
  const StudyResults results = run(second).results;
  EXPECT_TRUE(second.trained.empty());
  EXPECT_EQ(results.rows.size(), 6u);
  EXPECT_EQ(second.measured.size(), 6u);
  EXPECT_FALSE(std::filesystem::exists(folder.path("entropy/runs")));
  write_text(folder.path("again.toml"), "like = \"entropy.toml\"\n");
  EXPECT_THROW(read_study(folder.path("again.toml")), Error);
  write_text(folder.path("typo.toml"), "like = \"study.toml\"\nonly = [\"remoee\"]\n");
  EXPECT_THROW(read_study(folder.path("typo.toml")), Error);
}

}  // namespace
}  // namespace penstock::study
