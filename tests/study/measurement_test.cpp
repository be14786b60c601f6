// A measurement that is defined only in this file. Its key, its part of a row and its table need no
// change in any other file.
#include "penstock/study/measurement.h"

#include <gtest/gtest.h>

#include "penstock/report/report.h"
#include "penstock/study/json_field.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_folder.h"
#include "tests/base/error_of.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using nlohmann::json;
using testing::FakeTrainer;

/// The study's key `weigh`, for example 2.5, is multiplied by each run's number of steps.
class Weigh : public Measurement {
 public:
  void read_keys(FieldReader& keys, KeysOf part) override {
    if (part == KeysOf::study) keys("weigh", factor_, {.help = "weight of a step", .min = 0});
  }
  bool shows(const std::string& name) const override { return factor_ > 0 && name == "weight"; }
  std::vector<Work> missing(const FinishedRun&, const RunRow& row) const override {
    if (factor_ == 0 || row.measured.contains("weight")) return {};
    return {{.what = "weighing", .asked = factor_ * static_cast<double>(row.steps)}};
  }
  std::optional<json> measure(const FinishedRun&, const Work& work,
                              const TrainControl&) const override {
    return work.asked;
  }
  void keep(const FinishedRun& run, const Work&, const json& result, RunRow& row) const override {
    row.measured["weight"] = result;
    write_kept_object({{"weight", result}}, run.directory, "weight.json");
  }
  json read_row(const json& row, const std::string& where) const override {
    if (!row.contains("weight")) return json::object();
    return {{"weight", field_of<double>(row, "weight", where)}};
  }
  json read_folder(const std::string& run_directory) const override {
    return read_kept_object(run_directory, "weight.json").value_or(json::object());
  }
  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    Table table{.columns = {"variant", "weight", "paper"}};
    for (const RunRow& row : rows)
      if (row.measured.contains("weight"))
        table.rows.push_back(
            {{row.label, fixed(1)(row.measured["weight"].get<double>()),
              number_or_dash(published_number(comparison, row.variant, "weight"))}});
    return table.rows.empty() ? std::vector<Section>()
                              : std::vector<Section>{{.title = "Weights", .tables = {table}}};
  }

 private:
  double factor_ = 0;
};

const RegisterMeasurement<Weigh> registered("weigh");

using OneMeasurement = testing::StudyRunner;

TEST_F(OneMeasurement, NeedsNoOtherFile) {
  ask("weigh = 2.5\n", "published = {weight = 700}\n");  // published for remoe
  options.kept_rows = folder.path("rows.json");
  FakeTrainer first, second;
  const StudyResults results = run(first).results;
  EXPECT_EQ(results.rows.front().measured, json({{"weight", 750.0}}));  // 300 steps
  EXPECT_EQ(to_json(results)["rows"][0]["weight"], 750.0);
  const std::string text = report::results_text(results), page = report::report_page(results);
  penstock::testing::expect_says(text, {"Weights:\nvariant", "  750.0    700\n"});
  penstock::testing::expect_says(page, {"<h2>Weights</h2>", "<td>750.0</td><td>700</td>"});
  // results.json, the kept rows and the runs' folders give the same text.
  EXPECT_EQ(report::results_text(read_results(folder.path("out/results.json"))), text);
  EXPECT_EQ(read_kept_runs(options.kept_rows).rows[0].measured, json({{"weight", 750.0}}));
  StudyOptions without = options;
  without.kept_rows.clear();
  const auto again = run(second, without);
  EXPECT_TRUE(second.trained.empty());
  EXPECT_EQ(report::results_text(again.results), text);
}

TEST_F(OneMeasurement, HasKeysThatAreTheStudysOwn) {
  const auto error_of = [&](const std::string& head, const std::string& tail) {
    ask(head, tail);
    return penstock::testing::error_or("", [&] { read_study(file); });
  };
  penstock::testing::expect_says(error_of("wiegh = 2.5\n", ""), {"did you mean 'weigh'?"});
  penstock::testing::expect_says(error_of("weigh = 'much'\n", ""), {"weigh: expected a number"});
  penstock::testing::expect_says(error_of("", "published = {weight = 7}\n"), {"not shown"});
  EXPECT_EQ(error_of("weigh = 1\n", "published = {weight = 7}\n"), "");
}

TEST(Measurement, EachHasANameOfItsOwn) {
  std::vector<std::string> names;
  for (const auto& one : make_measurements()) names.push_back(one->name());
  for (const char* name : {"by_k", "finetuning", "routers", "weigh"})
    EXPECT_EQ(std::ranges::count(names, name), 1) << name;
}

}  // namespace
}  // namespace penstock::study
