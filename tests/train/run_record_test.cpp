// A step's line in files and on the terminal, and the figures of a finished run, compared with
// hand-worked numbers.
#include "penstock/train/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <vector>

#include "penstock/base/processor_share.h"
#include "penstock/models/make_model.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

constexpr std::size_t kWide = 999;  // columns

TEST(MetricsLine, HasFiguresPerByteAndPerSecond) {
  // 30 tokens of two bits each in 40 bytes, and 600 FLOPs, in half a second.
  const StepOutcome outcome{
      .report = {.loss = 2 * std::numbers::ln2, .tokens = 30, .bytes = 40, .flops = 600},
      .seconds = 0.5};
  const auto line = metrics_line(7, outcome, {.peak_flops = 2400});
  EXPECT_EQ(line.at("step"), 7);
  EXPECT_DOUBLE_EQ(line.at("bits_per_byte").get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(line.at("tokens_per_second").get<double>(), 60);
  EXPECT_DOUBLE_EQ(line.at("share_of_peak").get<double>(), 0.5);
  EXPECT_EQ(line.at("step_seconds"), 0.5);
  for (const char* other :
       {"accuracy", "ranks", "outer_step", "consistency", "sparsity", "expert_layers"})
    EXPECT_FALSE(line.contains(other)) << other;
}

// A model of four layers with experts in the second and the fourth.
TEST(MetricsLine, GivesMoeLayersTheirNumberInTheModel) {
  ModelConfig config = testing::small_recipe("topk", 2, 8).model;
  config.vocab = 16;
  config.layers = 4;
  config.moe.dense_layers = 1;
  config.moe.every = 2;
  const auto model = make_model(config, 1);
  StepOutcome outcome{.seconds = 1};
  outcome.report.sparsity_by_layer = {0.75, 0.5};
  const auto line = metrics_line(1, outcome, machine_record(*model, 1, 1e9));
  EXPECT_EQ(line.at("expert_layers"), nlohmann::ordered_json({1, 3}));
  EXPECT_EQ(line.at("sparsity_by_layer").size(), 2U);
}

TEST(FinishedRecord, HasMediansAndSumsOfTheSteps) {
  const std::vector<nlohmann::ordered_json> lines = {
      {{"step", 0}, {"validation", {{"loss", 9}}}},
      {{"step", 1}, {"tokens_per_second", 10}, {"share_of_peak", 0.1}, {"flops", 100}},
      {{"step", 2}, {"tokens_per_second", 30}, {"share_of_peak", 0.5}, {"flops", 200}},
      {{"step", 3},
       {"tokens_per_second", 20},
       {"share_of_peak", nullptr},
       {"flops", 300},
       {"warnings", {{{"name", "a"}, {"finding", "b"}, {"remedy", "c"}}}}},
      {{"step", 4}, {"tokens_per_second", 100}, {"share_of_peak", 0.2}, {"flops", 400}}};
  const auto record = finished_record(testing::small_recipe("dense", 2, 8), lines, {.threads = 3});
  EXPECT_EQ(record.at("steps"), 40);
  EXPECT_EQ(record.at("tokens_per_second"), 25);
  EXPECT_EQ(record.at("share_of_peak"), 0.2);
  EXPECT_EQ(record.at("flops"), 1000);
  EXPECT_EQ(record.at("flops_per_token"), 1000.0 / (4 * 2 * 8));
  EXPECT_EQ(record.at("threads"), 3);
  EXPECT_FALSE(record.contains("ranks"));
  EXPECT_FALSE(record.contains("expert_layers"));
  const auto sparse = finished_record(testing::small_recipe("topk", 2, 8), lines, {});
  EXPECT_EQ(sparse.at("expert_layers"), nlohmann::ordered_json({0, 1}));
  EXPECT_EQ(record.at("warnings"),
            (nlohmann::ordered_json::array(
                {{{"step", 3}, {"name", "a"}, {"finding", "b"}, {"remedy", "c"}}})));
}

StepOutcome step_of_half_a_second() {
  return {.report = {.loss = 1.5881, .tokens = 4096, .bytes = 9000, .flops = 1e9},
          .learning_rate = 3e-4,
          .gradient_norm = 181.3,
          .seconds = 0.5};
}

/// The progress line of a run whose z-loss is much larger than its cross-entropy.
TEST(ProgressText, KeepsWhatMattersIn80Columns) {
  StepOutcome outcome = step_of_half_a_second();
  StepReport& report = outcome.report;
  report.auxiliary_losses = {{"load-balance", 0.0423}, {"z-loss", 62.14}};
  report.sparsity = 0.75;
  report.sparsity_by_layer = {0.75};
  const MachineRecord machine{.peak_flops = 4e9};
  const auto text = [&](const std::string& measured, std::size_t columns) {
    return progress_text(120, 1000, outcome, machine, measured, 62, {}, columns);
  };
  EXPECT_EQ(text("valid 1.6000", 200),
            "step 120/1000  loss 1.5881  1.043 bits/byte  aux load-balance 0.0423 z-loss 62.1  "
            "grad 181  lr 0.0003  8,192 tok/s  50% of peak  sparsity 0.750  valid 1.6000  1m02s "
            "left");
  const std::string narrow = text("valid 1.6000", 79);  // the last column of 80 stays free
  EXPECT_EQ(narrow,
            "step 120/1000  loss 1.5881  aux 62.2  sparsity 0.750  valid 1.6000  1m02s left");
  EXPECT_LE(narrow.size(), 79U);
  const std::string early = text("", 79);
  EXPECT_EQ(early, "step 120/1000  loss 1.5881  aux 62.2  grad 181  sparsity 0.750  1m02s left");
  // Bits per byte are left out first.
  const std::string less = text("valid 1.6000", text("valid 1.6000", 999).size() - 1);
  EXPECT_EQ(less.find("bits/byte"), std::string::npos);
  EXPECT_NE(less.find("50% of peak"), std::string::npos);
}

TEST(ProgressText, SaysIn80ColumnsThatOtherProgramsUseTheProcessor) {
  StepOutcome outcome = step_of_half_a_second();
  StepReport& report = outcome.report;
  MachineRecord machine{.peak_flops = 4e9};
  const auto text = [&](std::int64_t step, std::int64_t steps, std::size_t columns) {
    return progress_text(step, steps, outcome, machine, "valid 1.6000", 62, busy_field(0.41, 2, 2),
                         columns);
  };
  EXPECT_EQ(text(120, 1000, 79),
            "step 120/1000  CPU 41%  loss 1.5881  grad 181  valid 1.6000  1m02s left");
  report.auxiliary_losses = {{"adaptive-l1", 0.0423}};
  report.sparsity = 0.75;
  report.sparsity_by_layer = {0.75};
  machine.balancer_state = {{"lambda", 0.001}};
  EXPECT_EQ(text(120, 1000, 79),
            "step 120/1000  CPU 41%  loss 1.5881  sparsity 0.750  valid 1.6000  1m02s left");
  EXPECT_EQ(text(12000, 100000, 79),
            "step 12000/100000  CPU 41%  loss 1.5881  sparse 0.75  valid 1.6000  1m02s left");
  EXPECT_NE(text(120, 1000, kWide)
                .find("  other programs use the processor: 41 % of 2 cores left  loss 1.5881"),
            std::string::npos);
}

TEST(WatchedStep, ReadsTheNormOfOlderFineTunings) {
  EXPECT_EQ(watched_step({{"step", 1}, {"loss", 2.0}, {"gradient_norm", 7.0}}).gradient_norm, 7);
}

TEST(ShareOfPeak, IsOfTheProcessorAlone) {
  StepOutcome outcome{.seconds = 2};
  outcome.report.flops = 6e9;
  const MachineRecord machine{.peak_flops = 4e9};
  EXPECT_EQ(metrics_line(1, outcome, machine).at("share_of_peak"), 0.75);
  EXPECT_NE(progress_text(1, 9, outcome, machine, "", 0, {}, kWide).find("75% of peak"),
            std::string::npos);
  outcome.on_cpu = false;
  EXPECT_TRUE(metrics_line(1, outcome, machine).at("share_of_peak").is_null());
  EXPECT_EQ(progress_text(1, 9, outcome, machine, "", 0, {}, kWide).find("peak"),
            std::string::npos);
  // A run of one such step.
  for (const bool on_cpu : {false, true}) {
    outcome.on_cpu = on_cpu;
    const auto record = finished_record(testing::small_recipe("dense", 2, 8),
                                        {metrics_line(1, outcome, machine)}, machine);
    EXPECT_EQ(record.at("share_of_peak").is_null(), !on_cpu);
  }
}

TEST(SettledStep, NeedsTwentyStepsOfMeanAndTwentyMoreThatStay) {
  std::vector<double> sparsity(30, 0.5);
  sparsity.resize(130, 0.875);
  // The mean of 20 comes within 0.02 of 0.875 once at most one of them is 0.5 (0.375/20 = 0.019).
  EXPECT_EQ(settled_step(sparsity, 0.875), 49);
  EXPECT_EQ(settled_step(std::vector<double>(130, 0.5), 0.875), -1);
  EXPECT_EQ(settled_step({}, 0.875), -1);
}

TEST(HeldShare, CountsStepsWhoseRecentMeanIsOnTarget) {
  std::vector<double> sparsity(60, 0.875);
  for (int i = 50; i < 60; ++i) sparsity[i] = 0.78;  // each lowers the mean of 20 by 0.00475
  // Steps 20..60 give 41 means. The 6 means with more than 4 low steps are off the target.
  EXPECT_NEAR(held_share(sparsity, 0.875, 0), 35.0 / 41.0, 1e-12);
  EXPECT_TRUE(std::isnan(held_share(sparsity, 0.875, 61)));
}

TEST(SettleTolerance, IsAShareOfTheActiveExpertsBeyondEightForEachOfThem) {
  EXPECT_EQ(settle_tolerance(1 - 1 / 4.), 0.02);
  EXPECT_EQ(settle_tolerance(1 - 1 / 8.), 0.02);
  EXPECT_EQ(settle_tolerance(1 - 2 / 16.), 0.02);
  EXPECT_NEAR(settle_tolerance(1 - 1 / 16.), 0.01, 1e-15);
  EXPECT_NEAR(settle_tolerance(1 - 1 / 64.), 0.0025, 1e-15);
}

TEST(SettledStep, OfOneExpertInSixtyFourNeedsThatExpert) {
  const double target = 1 - 1 / 64.;  // 0.984375
  EXPECT_EQ(settled_step(std::vector<double>(130, 1), target), -1);
  EXPECT_EQ(settled_step(std::vector<double>(130, target + 0.0026), target), -1);
  EXPECT_EQ(settled_step(std::vector<double>(130, target - 0.0026), target), -1);
  EXPECT_EQ(settled_step(std::vector<double>(130, target + 0.0024), target), 20);
  EXPECT_EQ(settled_step(std::vector<double>(130, target - 0.0024), target), 20);
}

TEST(HeldShare, OfOneExpertInSixtyFourEndsWithThatExpert) {
  const double target = 1 - 1 / 64.;
  std::vector<double> sparsity(40, target);
  sparsity.resize(60, 1);  // each raises the mean of 20 by 0.00078
  // Steps 20..60 give 41 means. Those of steps 20 to 43 have at most three dead steps.
  EXPECT_NEAR(held_share(sparsity, target, 0), 24 / 41., 1e-12);
}

}  // namespace
}  // namespace penstock
