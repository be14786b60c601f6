// The report page: self-contained, escaped and complete. PENSTOCK_KEEP_PAGES=DIR keeps the pages so
// that a person can open them in a browser.
#include "penstock/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "penstock/base/error.h"
#include "penstock/report/sections.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_reader.h"
#include "penstock/study/runs/run_row_json.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::FakeRun;
using testing::FakeTrainer;
using testing::read_text;
using testing::TemporaryDirectory;
using testing::write_fake_run;
using testing::write_fake_study;

void keep(const std::string& page, const char* name) {
  if (const char* folder = std::getenv("PENSTOCK_KEEP_PAGES"))
    std::filesystem::copy_file(page, std::filesystem::path(folder) / name,
                               std::filesystem::copy_options::overwrite_existing);
}

std::string without(const std::string& element, std::string page) {
  const std::string end = "</" + element + ">";
  for (std::size_t at; (at = page.find("<" + element)) != std::string::npos;)
    page.erase(at, page.find(end, at) + end.size() - at);
  return page;
}

std::string without_scripts(const std::string& page) { return without("script", page); }

// Expects no tag and no style that would make a browser fetch an address.
void expect_self_contained(const std::string& page) {
  const std::string html = without_scripts(page);
  EXPECT_FALSE(
      std::regex_search(html, std::regex("<(link|img|iframe|object|embed|video|audio)\\b")));
  EXPECT_FALSE(std::regex_search(html, std::regex("\\b(src|href|srcset|action)\\s*=")));
  EXPECT_EQ(html.find("@import"), std::string::npos);
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_EQ(page.find("<script src"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);  // the browser refuses every load
}

TEST(ReportPage, OfAStudyIsWholeAndSelfContained) {
  TemporaryDirectory folder;
  FakeTrainer trainer;
  run_study(read_study(write_fake_study(folder.path())),
            {.output = folder.path("out"), .command = "penstock study study.toml"},
            trainer.hooks());
  const std::string page = read_text(folder.path("out/report.html"));
  keep(folder.path("out/report.html"), "study.html");
  expect_self_contained(page);
  for (const char* part :
       {"Results", "Training loss", "Validation loss", "Sparsity", "weight λ", "stage III begins",
        "seed by seed", "Load of the experts", "Load by domain", "Active experts per token",
        "Validation loss by domain", "Speed and memory", "Where the variants differ",
        "How to reproduce"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(page.find("Chart.js v"), std::string::npos);
  EXPECT_LT(page.size(), 2'000'000u);
}

TEST(ReportPage, ALossThatLooksAheadIsMarkedAndNeverTheBest) {
  const auto row = [](const std::string& name, double loss, bool causal) {
    RunRow out{.variant = name, .label = name, .seed = 1, .finished = true, .causal = causal};
    out.validation = Evaluation{.loss = loss};
    return out;
  };
  StudyResults results{.title = "t", .rows = {row("a", 1, true), row("b", 2, true)}};
  const std::string best = "class=\"best\">";
  EXPECT_NE(report::report_page(results).find(best + "1.0000"), std::string::npos);
  EXPECT_EQ(report::report_page(results).find("not causal"), std::string::npos);
  results.rows[0].causal = false;
  const std::string page = report::report_page(results);
  EXPECT_NE(page.find("a (not causal)"), std::string::npos);
  EXPECT_NE(page.find("Not causal: where a token goes"), std::string::npos);
  EXPECT_EQ(page.find(best + "1.0000"), std::string::npos);
  EXPECT_NE(page.find(best + "2.0000"), std::string::npos);
}

TEST(ReportPage, TheTrainingOfWhatVariantsBeginWithIsSaidToBeUncounted) {
  const auto row = [](const std::string& name, double flops) {
    RunRow out{
        .variant = name, .label = "L" + name, .seed = 1, .finished = true, .total_flops = flops};
    out.validation = Evaluation{.loss = 1};
    return out;
  };
  StudyResults results{.title = "t", .rows = {row("parent", 3e12), row("a", 1e12), row("b", 1e12)}};
  EXPECT_EQ(report::results_text(results).find("begin"), std::string::npos);
  results.comparison.begins_with = {{"a", "parent"}, {"b", "parent"}, {"gone", "parent"}};
  const std::string said =
      "2 variants begin with Lparent, whose training (3.00 T FLOPs) is not counted with theirs";
  EXPECT_NE(report::results_text(results).find(said), std::string::npos)
      << report::results_text(results);
  EXPECT_NE(report::report_page(results).find(said), std::string::npos);
  results.comparison.begins_with = {{"a", "models/x"}};
  EXPECT_NE(
      report::results_text(results).find("1 variant begins with models/x, whose training is not"),
      std::string::npos);
  const auto again = results_from_json(to_json(results), "results.json");
  EXPECT_EQ(again.comparison.begins_with, results.comparison.begins_with);
}

TEST(ReportPage, UnequalComputeIsSaidAndTintsNothing) {
  const auto row = [](const std::string& name, double loss, double flops) {
    RunRow out{.variant = name, .label = name, .seed = 1, .finished = true, .total_flops = flops};
    out.validation = Evaluation{.loss = loss};
    for (const char* domain : {"c", "python"}) out.validation->by_domain[domain].loss = loss;
    return out;
  };
  StudyResults results{.title = "t", .rows = {row("a", 1, 1e12), row("b", 2, 1.01e12)}};
  const std::string tinted = "class=\"best\"", said = "compute differs by 1.5x (1.00 T to 1.52 T";
  EXPECT_NE(report::report_page(results).find(tinted), std::string::npos);
  EXPECT_EQ(report::report_page(results).find("compute differs"), std::string::npos);
  EXPECT_EQ(report::results_text(results).find("compute differs"), std::string::npos);
  results.rows[1].total_flops = 1.52e12;
  EXPECT_EQ(report::report_page(results).find(tinted), std::string::npos);
  EXPECT_NE(report::report_page(results).find(said), std::string::npos);
  EXPECT_NE(report::report_page(results).find("\"cost\":\"flops\""), std::string::npos);
  EXPECT_NE(report::results_text(results).find(said), std::string::npos);
  EXPECT_NE(report::results_text(results).find("0.66x"), std::string::npos);
  EXPECT_NEAR(to_json(results)["compute_ratio"].get<double>(), 1.52, 1e-12);
}

TEST(ReportPage, SparsityThatNeverSettlesIsSaid) {
  TemporaryDirectory folder;
  StudyResults results{.title = "t"};
  for (const std::int64_t seed : {1, 2}) {
    write_fake_run(folder.path("run"), FakeRun{.method = "remoe", .seed = seed, .settles = false});
    results.rows.push_back(read_run(folder.path("run")));
    results.rows.back().seed = seed;
  }
  EXPECT_NE(report::results_text(results).find("settled at step"), std::string::npos);
  EXPECT_NE(report::results_text(results).find("never"), std::string::npos);
  EXPECT_NE(report::report_page(results).find("<td>never</td>"), std::string::npos);
  EXPECT_NE(report::run_page(results.rows[0], "", {}).find("<td>never</td>"), std::string::npos);
  results.rows[1].stages.settled = 91;
  EXPECT_NE(report::results_text(results).find("91 (1 of 2 runs)"), std::string::npos);
  for (RunRow& row : results.rows) row.target_sparsity.reset();
  results.rows[1].stages = {};
  EXPECT_EQ(report::results_text(results).find("settled"), std::string::npos);
}

TEST(ReportPage, IsTheSameWhenDrawnAgainFromResults) {
  TemporaryDirectory folder;
  FakeTrainer trainer;
  run_study(read_study(write_fake_study(folder.path())), {.output = folder.path("out")},
            trainer.hooks());
  const std::string before = read_text(folder.path("out/report.html"));
  std::filesystem::remove_all(folder.path("out/runs"));
  std::filesystem::remove(folder.path("out/report.html"));
  EXPECT_EQ(report::write_report(folder.path("out")), folder.path("out/report.html"));
  EXPECT_EQ(read_text(folder.path("out/report.html")), before);
}

TEST(ReportPage, OfSingleRuns) {
  TemporaryDirectory folder;
  for (const std::string method : {"dense", "remoe"}) {
    write_fake_run(folder.path(method), FakeRun{.method = method});
    report::write_run_report(folder.path(method));
    keep(folder.path(method + "/report.html"), (method + ".html").c_str());
    const std::string page = read_text(folder.path(method + "/report.html"));
    expect_self_contained(page);
    EXPECT_EQ(page.find("id=\"lambda\"") != std::string::npos, method == "remoe");
    const std::string html = without("pre", without("style", without_scripts(page)));
    for (const char* word : {"variant", "study", "studies", "seeds", "over seed"})
      EXPECT_FALSE(std::regex_search(html, std::regex("\\b" + std::string(word) + "\\b"))) << word;
    for (const char* id : {"loss", "validation_loss", "learning_rate", "grad_norm",
                           "tokens_per_second", "imbalance", "auxiliary_losses/adaptive-l1"})
      EXPECT_EQ(html.find("<canvas id=\"" + std::string(id) + "\"") != std::string::npos,
                method == "remoe" || (std::string(id) != "imbalance" && id[0] != 'a'))
          << id;
  }
  write_fake_run(folder.path("stopped"),
                 FakeRun{.method = "remoe", .steps = 12, .finished = false});
  report::write_run_report(folder.path("stopped"));
  EXPECT_NE(read_text(folder.path("stopped/report.html")).find("12 of 12, not finished"),
            std::string::npos);
  EXPECT_THROW(report::write_report(folder.path()), Error);
}

/// Figure 3's numbers from the lines of metrics.jsonl, and the seconds at the stages' borders.
TEST(ReportPage, HasSparsityByLayerAndTheTimeOfStages) {
  TemporaryDirectory folder;
  write_fake_run(folder.path("remoe"), {.method = "remoe", .steps = 300});
  const RunRow row = read_run(folder.path("remoe"));
  std::istringstream lines(read_text(folder.path("remoe/metrics.jsonl")));
  double count = 0, sum = 0, squares = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object["step"] <= 100) continue;
    const double value = object["sparsity_by_layer"][2];
    count += 1, sum += value, squares += value * value;
  }
  ASSERT_TRUE(row.sparsity_by_layer);
  EXPECT_EQ(row.sparsity_by_layer->steps, count);
  EXPECT_EQ(count, 200);
  EXPECT_NEAR(row.sparsity_by_layer->mean[2], sum / count, 1e-12);
  EXPECT_NEAR(row.sparsity_by_layer->sd[2], std::sqrt(squares / count - sum / count * sum / count),
              1e-8);
  const auto again = row_from_json(to_json(row), "row");
  EXPECT_EQ(again.sparsity_by_layer->mean, row.sparsity_by_layer->mean);
  const RunRow rows[] = {row};
  const auto variants = summarize(rows);
  const Table layers = report::layer_sparsity_table(variants),
              stages = report::stage_table(variants);
  ASSERT_EQ(layers.rows.size(), 1u);
  EXPECT_EQ(layers.rows[0].cells[3].text, fixed(4)(row.sparsity_by_layer->mean[2]));
  // Each step takes half a second. Stage I ends one step before stage II begins.
  ASSERT_TRUE(row.stages.sparsifying && row.stages.settled);
  EXPECT_EQ(stages.rows[0].cells[3].text,
            fixed(1)(0.5 * static_cast<double>(*row.stages.sparsifying - 1)));
  EXPECT_EQ(stages.rows[0].cells[5].text,
            fixed(1)(150 - 0.5 * static_cast<double>(*row.stages.settled - 1)));
  write_fake_run(folder.path("short"), {.method = "remoe", .steps = 90});
  EXPECT_FALSE(read_run(folder.path("short")).sparsity_by_layer);
}

TEST(ReportPage, EscapesWhatFilesSay) {
  RunRow row{.variant = "v", .label = "</script><script>alert(1)</script>", .finished = true};
  row.machine = "<b>\"x\" & 'y'";
  row.validation = Evaluation{.loss = 1};
  row.validation->by_domain["<i>"] = {.loss = 1};
  row.settings["<u>"] = "</td><script>";
  row.curves["loss"] = {{1, 2}, {3, 2}};
  const std::string page = report::report_page(
      {.title = "<h1>t", .claim = "<img src=x>", .command = "a > b & c", .rows = {row}});
  for (const char* raw : {"<script>alert", "<b>\"x\"", "<i>", "<u>", "<h1>t", "<img", "a > b"})
    EXPECT_EQ(page.find(raw), std::string::npos) << raw;
  EXPECT_NE(page.find("&lt;b&gt;&quot;x&quot; &amp; &#39;y&#39;"), std::string::npos);
}

TEST(ReportPage, OfARunHasWarningsAndText) {
  TemporaryDirectory folder;
  write_fake_run(folder.path("run"), FakeRun{.method = "topk", .warnings = {"loss < 0 & more"}});
  testing::write_text(
      folder.path("run/samples.json"),
      R"({"split": "test", "refused": "", "samples": [{"prompt": "if (a < b) ", "text": "<return>"}]})");
  report::write_run_report(folder.path("run"));
  const std::string page = read_text(folder.path("run/report.html"));
  EXPECT_NE(page.find("Warning: step 3: loss &lt; 0 &amp; more; do less"), std::string::npos);
  EXPECT_NE(page.find("if (a &lt; b) <mark>&lt;return&gt;</mark>"), std::string::npos);
  testing::write_text(folder.path("run/samples.json"),
                      R"({"split": "test", "refused": "it looks ahead", "samples": []})");
  report::write_run_report(folder.path("run"));
  EXPECT_NE(read_text(folder.path("run/report.html")).find("None was generated: it looks ahead."),
            std::string::npos);
  testing::write_text(folder.path("run/samples.json"), "[");
  EXPECT_THROW(report::write_run_report(folder.path("run")), Error);
}

TEST(ReportPage, OneDomainIsNotDrawnThrice) {
  TemporaryDirectory folder;
  write_fake_run(folder.path("run"), FakeRun{.method = "remoe"});
  RunRow row = read_run(folder.path("run"));
  EXPECT_NE(report::run_page(row, "", {}).find("Validation loss by domain"), std::string::npos);
  EXPECT_NE(report::run_page(row, "", {}).find("Load by domain"), std::string::npos);
  Evaluation& measured = *row.validation;
  const auto keep_one = [](auto& by_domain) {
    by_domain.erase(std::next(by_domain.begin()), by_domain.end());
  };
  keep_one(measured.by_domain);
  keep_one(measured.load_by_domain);
  keep_one(measured.active_by_layer_domain);
  const std::string page = report::run_page(row, "", {});
  EXPECT_EQ(page.find("Validation loss by domain"), std::string::npos);
  EXPECT_EQ(page.find("Load by domain"), std::string::npos);
  EXPECT_EQ(page.find(measured.by_domain.begin()->first), std::string::npos);
  EXPECT_NE(page.find("Active experts per token"), std::string::npos);
}

}  // namespace
}  // namespace penstock::study
