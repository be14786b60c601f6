// ReMoE's regulariser by stage of a run: from metrics.jsonl to the page and the text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "penstock/report/report.h"
#include "penstock/report/sections.h"
#include "penstock/study/runs/run_reader.h"
#include "penstock/study/runs/run_row_json.h"
#include "penstock/study/runs/stages.h"
#include "tests/base/error_of.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::TemporaryDirectory;
using testing::write_fake_run;

TEST(StageRegulariser, MeansAreOfTheStepsOfAStage) {
  const Curve curve{.steps = {1, 2, 3, 4, 5}, .values = {1, 2, 4, 8, 16}};
  const StageMeans means = stage_means(curve, {.sparsifying = 2, .settled = 4});
  EXPECT_EQ(means.first, 1);
  EXPECT_EQ(means.second, 3);
  EXPECT_EQ(means.third, 12);
  const StageMeans unsettled = stage_means(curve, {.sparsifying = 4});
  EXPECT_EQ(unsettled.first, 7 / 3.);
  EXPECT_EQ(unsettled.second, 12);
  EXPECT_FALSE(unsettled.third);
  EXPECT_EQ(stage_means(curve, {}).first, 31 / 5.);
}

/// The fixture has L_reg = 4/x and λ·L_reg = x/10⁴ at step x. The figures are means over the
/// stages.
TEST(StageRegulariser, IsShownByItselfAndTimesItsWeight) {
  TemporaryDirectory folder;
  write_fake_run(folder.path("remoe"), {.method = "remoe", .steps = 300});
  const RunRow row = read_run(folder.path("remoe"));
  ASSERT_TRUE(row.stages.sparsifying && row.stages.settled && row.regulariser);
  const auto two = *row.stages.sparsifying, three = *row.stages.settled;
  const auto mean = [](std::int64_t first, std::int64_t last, const auto& value) {
    double sum = 0;
    for (std::int64_t step = first; step < last; ++step) sum += value(static_cast<double>(step));
    return sum / static_cast<double>(last - first);
  };
  const auto falling = [](double x) { return 4 / x; };
  const auto rising = [](double x) { return 1e-4 * x; };
  EXPECT_NEAR(*row.regulariser->unweighted.first, mean(1, two, falling), 1e-9);
  EXPECT_NEAR(*row.regulariser->unweighted.second, mean(two, three, falling), 1e-9);
  EXPECT_NEAR(*row.regulariser->weighted.third, mean(three, 301, rising), 1e-9);
  const auto again = row_from_json(to_json(row), "row");
  EXPECT_EQ(again.regulariser->weighted.second, row.regulariser->weighted.second);
  const RunRow rows[] = {row};
  const Table table = report::regulariser_table(summarize(rows));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].cells[6].text, fmt::format("{:.3g}", mean(three, 301, rising)));
  penstock::testing::expect_says(report::results_text({.rows = {row}}), {"Regulariser by stage"});
  const std::string page = report::run_page(row, "", {});
  penstock::testing::expect_says(
      page, {"Regulariser by stage", "id=\"l_reg\"", "Auxiliary loss: adaptive-l1"});
  const std::string dense = folder.path("dense");
  write_fake_run(dense, {.method = "dense"});
  EXPECT_FALSE(read_run(dense).regulariser);
}

}  // namespace
}  // namespace penstock::study
