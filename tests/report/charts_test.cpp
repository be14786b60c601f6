// Charts of training: their series, their axes and the stages that they mark.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penstock/report/sections.h"
#include "penstock/study/runs/run_reader.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::FakeRun;
using testing::TemporaryDirectory;
using testing::write_fake_run;

TEST(Charts, SayWhatALossHadCost) {
  TemporaryDirectory folder;
  write_fake_run(folder.path("dense"), FakeRun{.method = "dense"});
  write_fake_run(folder.path("remoe"), FakeRun{.method = "remoe"});
  const std::vector<RunRow> rows{read_run(folder.path("dense")), read_run(folder.path("remoe"))};
  const auto charts = report::training_charts(summarize(rows));
  const auto validation = std::ranges::find(charts, std::string("Validation loss"), &Chart::title);
  ASSERT_NE(validation, charts.end());
  EXPECT_EQ(validation->section, "loss");
  for (std::size_t v = 0; v < 2; ++v) {
    const auto& series = validation->drawn["series"][v];
    EXPECT_EQ(series["steps"].size(), 11u);  // the start and ten evaluations
    EXPECT_EQ(series["steps"][0], 0);
    EXPECT_EQ(series["costs"]["flops"][0], 0);
    EXPECT_NEAR(series["costs"]["flops"][10].get<double>() / rows[v].total_flops, 1, 1e-5);
    EXPECT_EQ(series["costs"]["tokens"][10], 300 * 8 * 256);
    EXPECT_EQ(series["costs"]["seconds"][10], 150);
  }
  EXPECT_EQ(validation->drawn["series"][0]["costs"]["flops"][1], 3000);  // 30 steps of 100 FLOPs
  const auto norm = std::ranges::find(charts, std::string("Gradient norm"), &Chart::title);
  ASSERT_NE(norm, charts.end());
  EXPECT_EQ(norm->drawn["lines"][0]["y"], 1.0);
}

Chart loss_chart(const Curve& curve) {
  RunRow row{.variant = "a", .label = "A"};
  row.curves["loss"] = curve;
  const std::vector<RunRow> rows{row};
  return report::training_charts(summarize(rows)).at(0);
}

TEST(Charts, TheAxisOfTheLossLeavesOutTheFirstStepsAlone) {
  Curve falling, rising;
  for (int step = 1; step <= 100; ++step) {
    falling.steps.push_back(step), rising.steps.push_back(step);
    falling.values.push_back(1 + 9.0 / step);
    rising.values.push_back(step < 5 ? 1.4 : step < 50 ? 3.8 : 2.0);
  }
  const Chart down = loss_chart(falling);
  EXPECT_EQ(down.drawn["y_max"], 3.25);  // 1 + 9/4; the first step has 10
  EXPECT_NE(down.caption.find("leaves out"), std::string::npos);
  const Chart up = loss_chart(rising);  // a run that first damages a trained model
  EXPECT_FALSE(up.drawn.contains("y_max"));
  EXPECT_EQ(up.caption.find("leaves out"), std::string::npos);
}

TEST(Charts, MarkTheStagesOfOneVariant) {
  RunRow row{.variant = "remoe", .label = "ReMoE", .target_sparsity = 0.875};
  row.stages = {.sparsifying = 60, .settled = 110};
  row.curves["sparsity"] = {{1, 200}, {0.5, 0.875}};
  const std::vector<RunRow> rows{row};
  const auto variants = summarize(rows);
  const auto charts = report::training_charts(variants);
  ASSERT_EQ(charts.size(), 1u);
  const auto& chart = charts[0].drawn;
  EXPECT_EQ(chart["id"], "sparsity");
  ASSERT_EQ(chart["bands"].size(), 3u);
  EXPECT_EQ(chart["bands"][1]["from"], 60);
  EXPECT_EQ(chart["bands"][1]["to"], 110);
  EXPECT_EQ(chart["lines"][0]["y"], 0.875);
}

}  // namespace
}  // namespace penstock::study
