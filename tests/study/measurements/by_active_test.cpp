// Studies that measure at mean numbers of active experts: the measured and kept figures, and their
// display beside the figures by k. The trainings are small and real.
#include "penstock/eval/by_active.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/read_recipe.h"
#include "tests/base/error_of.h"
#include "tests/study/trained_study_fixture.h"

namespace penstock::study {
namespace {

using nlohmann::json;
using testing::write_text;

/// A study of ReMoE and top-1 routing with two seeds and eight steps.
class StudyByActive : public testing::TrainedStudy {
 protected:
  void SetUp() override {
    write_base("[model.moe]\nexperts = 4\n", "");
    ask("eval_active = [1, 3, 8]\neval_k = [1, 2]\n");
  }
  void ask(const std::string& keys) const {
    write_text(path("study.toml"),
               "base = \"base.toml\"\nseeds = [1, 2]\n" + keys +
                   "[variants.relu]\nset = {\"model.router.method\" = \"remoe\"}\n"
                   "[variants.top]\nset = {\"model.router.method\" = \"topk\"}\n");
  }
  static const json& measured(const StudyResults& results, const std::string& variant) {
    for (const RunRow& row : results.rows)
      if (row.variant == variant && row.seed == 1) return row.measured;
    throw Error("no such row");
  }
};

TEST_F(StudyByActive, MeasuresKeepsAndShows) {
  const StudyResults results = run();
  const json& points = measured(results, "relu").at("by_active").at("points");
  ASSERT_EQ(points.size(), 2u);  // 8 exceeds the number of experts
  EXPECT_EQ(points[0]["active_experts"], 1);
  EXPECT_NEAR(points[1]["reached"].get<double>(), 3, 0.1);
  EXPECT_LT(points[0]["flops_per_token"], points[1]["flops_per_token"]);
  EXPECT_FALSE(measured(results, "top").contains("by_active"));
  const std::string text = report::results_text(results), page = report::report_page(results);
  penstock::testing::expect_says(text, {"with a mean of so many experts"});
  for (const char* part : {"by-active-flops", "By active experts", "top, by k", "relu, by k"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  // The figures are kept with the runs and in results.json, and are not measured again.
  EXPECT_EQ(report::results_text(read_results(path("out/results.json"))), text);
  EXPECT_EQ(report::results_text(run()), text);
}

/// The figures equal those of the run's checkpoint evaluated alone.
TEST_F(StudyByActive, AreThoseOfTheCheckpoint) {
  ask("eval_active = [2]\n");
  run();
  std::string directory;
  for (const auto& entry : std::filesystem::directory_iterator(path("out/runs")))
    if (entry.path().filename().string().starts_with("relu-seed-1-"))
      directory = entry.path().string();
  const json kept = read_kept_object(directory, "by_active.json").value();
  const auto model =
      load_model(find_checkpoint(directory, RunCheckpoint::final).directory.string());
  const std::vector<double> values = {2};
  const Recipe recipe = read_recipe(read_toml(directory + "/config.toml"));
  const auto alone = evaluate_by_active(*model, Corpus::open(path("corpus")),
                                        final_evaluation(recipe, Split::kTest), values);
  EXPECT_NEAR(kept["points"][0]["loss"].get<double>(), alone[0].figures.loss, 1e-6);
  EXPECT_NEAR(kept["points"][0]["shift"].get<double>(), alone[0].shift, 1e-12);
}

TEST_F(StudyByActive, MoreNumbersAreAddedToThoseMeasured) {
  ask("eval_active = [1]\n");
  run();
  ask("eval_active = [3]\n");
  const StudyResults results = run();
  const json& points = measured(results, "relu").at("by_active").at("points");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1]["active_experts"], 3);
}

TEST_F(StudyByActive, RefusesNumbersThatSayNothing) {
  const auto error_of = [&](const std::string& keys) {
    ask(keys);
    return penstock::testing::error_or("", [&] { read_study(path("study.toml")); });
  };
  penstock::testing::expect_says(error_of("eval_active = [1, 1]\n"), {"twice"});
  penstock::testing::expect_says(error_of("eval_active = [0]\n"), {"no experts"});
  EXPECT_EQ(error_of("eval_active = [0.5]\n"), "");
}

}  // namespace
}  // namespace penstock::study
