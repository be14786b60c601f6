// The page: self-contained, escaped, and with everything on it. PENSTOCK_KEEP_PAGES=DIR keeps the
// pages for a look in a browser.
#include "penstock/study/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "fixture.h"
#include "penstock/base/error.h"
#include "penstock/study/charts.h"
#include "penstock/study/html.h"
#include "penstock/study/mean_curve.h"

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

std::string without_scripts(std::string page) {
  for (std::size_t at; (at = page.find("<script")) != std::string::npos;)
    page.erase(at, page.find("</script>", at) + 9 - at);
  return page;
}

// Whatever a browser would fetch: tags and styles that name an address.
void expect_self_contained(const std::string& page) {
  const std::string html = without_scripts(page);
  EXPECT_FALSE(
      std::regex_search(html, std::regex("<(link|img|iframe|object|embed|video|audio)\\b")));
  EXPECT_FALSE(std::regex_search(html, std::regex("\\b(src|href|srcset|action)\\s*=")));
  EXPECT_EQ(html.find("@import"), std::string::npos);
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_EQ(page.find("<script src"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);  // a browser would refuse any load
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
  EXPECT_NE(report_page(results).find(best + "1.0000"), std::string::npos);
  EXPECT_EQ(report_page(results).find("not causal"), std::string::npos);
  results.rows[0].causal = false;
  const std::string page = report_page(results);
  EXPECT_NE(page.find("a (not causal)"), std::string::npos);
  EXPECT_NE(page.find("Not causal: where a token goes"), std::string::npos);
  EXPECT_EQ(page.find(best + "1.0000"), std::string::npos);
  EXPECT_NE(page.find(best + "2.0000"), std::string::npos);
}

TEST(ReportPage, IsTheSameWhenDrawnAgainFromResults) {
  TemporaryDirectory folder;
  FakeTrainer trainer;
  run_study(read_study(write_fake_study(folder.path())), {.output = folder.path("out")},
            trainer.hooks());
  const std::string before = read_text(folder.path("out/report.html"));
  std::filesystem::remove_all(folder.path("out/runs"));
  std::filesystem::remove(folder.path("out/report.html"));
  EXPECT_EQ(write_report(folder.path("out")), folder.path("out/report.html"));
  EXPECT_EQ(read_text(folder.path("out/report.html")), before);
}

TEST(ReportPage, OfSingleRuns) {
  TemporaryDirectory folder;
  for (const std::string method : {"dense", "remoe"}) {
    write_fake_run(folder.path(method), FakeRun{.method = method});
    write_run_report(folder.path(method));
    keep(folder.path(method + "/report.html"), (method + ".html").c_str());
    const std::string page = read_text(folder.path(method + "/report.html"));
    expect_self_contained(page);
    EXPECT_EQ(page.find("id=\"lambda\"") != std::string::npos, method == "remoe");
  }
  write_fake_run(folder.path("stopped"),
                 FakeRun{.method = "remoe", .steps = 12, .finished = false});
  write_run_report(folder.path("stopped"));
  EXPECT_NE(read_text(folder.path("stopped/report.html")).find("0 of 1 finished"),
            std::string::npos);
  EXPECT_THROW(write_report(folder.path()), Error);
}

TEST(ReportPage, EscapesWhatFilesSay) {
  RunRow row{.variant = "v", .label = "</script><script>alert(1)</script>", .finished = true};
  row.machine = "<b>\"x\" & 'y'";
  row.validation = Evaluation{.loss = 1};
  row.validation->by_domain["<i>"] = {.loss = 1};
  row.settings["<u>"] = "</td><script>";
  row.curves["loss"] = {{1, 2}, {3, 2}};
  const std::string page = report_page(
      {.title = "<h1>t", .claim = "<img src=x>", .command = "a > b & c", .rows = {row}});
  for (const char* raw : {"<script>alert", "<b>\"x\"", "<i>", "<u>", "<h1>t", "<img", "a > b"})
    EXPECT_EQ(page.find(raw), std::string::npos) << raw;
  EXPECT_NE(page.find("&lt;b&gt;&quot;x&quot; &amp; &#39;y&#39;"), std::string::npos);
}

TEST(Html, ScriptJsonCannotEndItsElement) {
  const std::string text = script_json({{"a", "</script><!--"}});
  EXPECT_EQ(text.find('<'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text)["a"], "</script><!--");
  EXPECT_NO_THROW(script_json(nlohmann::json(std::string("\xff\xfe"))));
}

TEST(Html, HeatMapHasEveryNumber) {
  const std::string map = heat_map({.rows = {{"layer 0", {0.25, 0.5}, ""}},
                                    .columns = {"0", "1"},
                                    .max = 0.5,
                                    .scale = 100,
                                    .unit = " %"});
  EXPECT_NE(map.find("--v:0.500\" title=\"layer 0, 0: 25.0 %\">25</td>"), std::string::npos) << map;
  EXPECT_NE(map.find("class=\"high\" style=\"--v:1.000\""), std::string::npos) << map;
}

TEST(MeanCurve, InterpolatesUpToTheShortest) {
  const Curve a{{0, 10, 20, 30}, {0, 10, 20, 30}}, b{{0, 20}, {2, 42}};
  const Curve* both[] = {&a, &b};
  const MeanCurve mean = mean_curve(both, false);
  EXPECT_EQ(mean.steps, (std::vector<double>{0, 10, 20}));
  EXPECT_EQ(mean.mean, (std::vector<double>{1, 16, 31}));
  EXPECT_EQ(mean.low, (std::vector<double>{0, 10, 20}));
  EXPECT_EQ(mean.high, (std::vector<double>{2, 22, 42}));
}

TEST(MeanCurve, AveragesLogarithms) {
  const Curve a{{1}, {1e-8}}, b{{1}, {1e-4}};
  const Curve* both[] = {&a, &b};
  EXPECT_NEAR(mean_curve(both, true).mean[0], 1e-6, 1e-15);
}

TEST(Charts, MarkTheStagesOfOneVariant) {
  RunRow row{.variant = "remoe", .label = "ReMoE", .target_sparsity = 0.875};
  row.stages = {.sparsifying = 60, .settled = 110};
  row.curves["sparsity"] = {{1, 200}, {0.5, 0.875}};
  const std::vector<RunRow> rows{row};
  const auto variants = summarize(rows);
  const auto data = chart_data(variants);
  ASSERT_TRUE(has_chart(data, "sparsity"));
  EXPECT_FALSE(has_chart(data, "loss"));
  const auto& chart = data["charts"][0];
  ASSERT_EQ(chart["bands"].size(), 3u);
  EXPECT_EQ(chart["bands"][1]["from"], 60);
  EXPECT_EQ(chart["bands"][1]["to"], 110);
  EXPECT_EQ(chart["lines"][0]["y"], 0.875);
}

}  // namespace
}  // namespace penstock::study
