// Whole runs in a run directory: what they measure, what they warn of, and which files they leave.
#include "penstock/train/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/ops/machine/machine.h"
#include "tests/base/error_of.h"
#include "tests/train/run_fixture.h"
#include "tests/train/signal_at.h"

namespace penstock {
namespace {

using testing::signal_at;
using testing::TrainRun;

TEST_F(TrainRun, ValidatesAndChoosesTheBestAtTheRecipesNumberOfExperts) {
  recipe_.set("model.router.method", "topk");
  set("model.router.k", 2);
  set("train.eval_every", 3);
  set("train.eval_k", 4);
  set("train.final_eval_tokens", 0);
  set("train.eval_tokens", 0);
  ASSERT_EQ(run("validated"), RunOutcome::finished);
  const auto log = read_metrics(real_file_system(), path("validated/metrics.jsonl"));
  double best = INFINITY, last = 0;
  for (const auto& line : log) {
    if (!line.contains("validation")) continue;
    EXPECT_EQ(line.at("validation").at("k"), 4);
    EXPECT_NEAR(line.at("validation").at("active_by_layer")[0].get<double>(), 4, 1e-9);
    last = line.at("validation").at("loss").get<double>();
    best = std::min(best, last);
  }
  const auto chosen = CheckpointStore(real_file_system(), path("validated")).best();
  ASSERT_TRUE(chosen.found);
  EXPECT_EQ(chosen.found->validation_loss, best);
  // The last evaluation uses the model's own number of experts.
  std::ifstream file(path("validated/finished.json"));
  const auto finished = nlohmann::json::parse(file);
  EXPECT_NEAR(finished.at("validation").at("active_by_layer")[0].get<double>(), 2, 1e-9);
  EXPECT_NE(finished.at("validation").at("loss").get<double>(), last);
}

TEST_F(TrainRun, SaysOnceThatALossOutweighsTheCrossEntropyAlsoWhereItIsResumed) {
  recipe_.set("model.router.method", "topk");
  recipe_.set("model.router.load-balance.coefficient", 100.0);
  auto files = signal_at(6, SIGTERM);
  ASSERT_EQ(run("warned", &files), RunOutcome::interrupted);
  ASSERT_EQ(run("warned"), RunOutcome::finished);
  std::vector<std::int64_t> steps;
  for (const auto& line : read_metrics(real_file_system(), path("warned/metrics.jsonl"))) {
    EXPECT_GT(line.at("auxiliary_losses").at("load-balance"), line.at("loss"));
    if (line.contains("warnings")) steps.push_back(line.at("step"));
  }
  EXPECT_EQ(steps, std::vector<std::int64_t>{1});
  const auto finished =
      nlohmann::json::parse(real_file_system().read(path("warned/finished.json")));
  ASSERT_EQ(finished.at("warnings").size(), 1U);
  const auto& warning = finished["warnings"][0];
  EXPECT_EQ(warning.at("step"), 1);
  EXPECT_EQ(warning.at("name"), "auxiliary loss");
  testing::expect_says(warning.at("finding").get<std::string>(), {"load-balance"});
  testing::expect_says(warning.at("remedy").get<std::string>(),
                       {"model.router.load-balance.coefficient"});
  // TensorBoard's scalars have these names.
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(path("warned/events")))
    events += real_file_system().read(entry.path());
  for (const char* tag :
       {"auxiliary_losses/load-balance", "train/grad_norm", "train/learning_rate"})
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
}

TEST_F(TrainRun, CountsClippedStepsAcrossAResume) {
  recipe_.set("train.clip", 1e-6);
  set("train.steps", 22);
  set("train.eval_every", 50);  // the log begins with step 0, which is no training step
  auto files = signal_at(6, SIGTERM);
  ASSERT_EQ(run("clipped", &files), RunOutcome::interrupted);
  ASSERT_EQ(run("clipped"), RunOutcome::finished);
  const auto finished =
      nlohmann::json::parse(real_file_system().read(path("clipped/finished.json")));
  ASSERT_EQ(finished.at("warnings").size(), 1U);
  const auto& warning = finished["warnings"][0];
  EXPECT_EQ(warning.at("step"), 20);
  EXPECT_EQ(warning.at("name"), "clipping");
  const auto finding = warning.at("finding").get<std::string>();
  testing::expect_says(finding, {"in 20 of the last 20 steps"});
}

TEST_F(TrainRun, TheWarningIsAmongWhatIsShown) {
  recipe_.set("model.router.method", "topk");
  set("train.steps", 2);
  const auto shown = [&](const std::string& name) {
    std::FILE* const file = std::tmpfile();
    EXPECT_EQ(train_run(recipe_, path(name), {.progress = file}), RunOutcome::finished);
    std::rewind(file);
    std::string text(1 << 14, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  EXPECT_EQ(shown("sound").find("warning"), std::string::npos);
  recipe_.set("model.router.load-balance.coefficient", 100.0);
  const std::string text = shown("shown");
  const auto at = text.find("warning: step 1: the loss of load-balance is ");
  EXPECT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find("warning", at + 1), std::string::npos) << text;
}

TEST_F(TrainRun, MeasuresTheBeginningAndChangesNoBit) {
  set("train.steps", 4);
  set("train.eval_tokens", 64);
  // Each of these draws, carries or keeps something else from step to step.
  for (const std::string method :
       {"remoe", "noisy-topk", "thor", "hyperrouter", "transformer-xl"}) {
    if (method == "transformer-xl") {
      recipe_.set("model.router.method", "remoe");
      recipe_.set("model.architecture", method);
      recipe_.set("model.transformer_xl.dropout", 0.1);
    } else {
      recipe_.set("model.router.method", method);
    }
    validate_every(0);
    ASSERT_EQ(run(method + "-blind"), RunOutcome::finished);
    validate_every(4);
    ASSERT_EQ(run(method), RunOutcome::finished);
    const auto log = read_metrics(real_file_system(), path(method + "/metrics.jsonl"));
    ASSERT_EQ(log.size(), 5u);
    EXPECT_EQ(log[0].at("step"), 0);
    EXPECT_GT(log[0].at("validation").at("loss").get<double>(), 1);
    EXPECT_FALSE(log[0].contains("loss"));
    EXPECT_EQ(read_metrics(real_file_system(), path(method + "-blind/metrics.jsonl")).size(), 4u);
    const auto state = [&](const std::string& of) {
      return CheckpointStore(real_file_system(), path(of)).load(4);
    };
    const CheckpointContents ours = state(method), blind = state(method + "-blind");
    SCOPED_TRACE(method);
    testing::expect_equal(ours.model, blind.model);
    testing::expect_equal(ours.optimizer, blind.optimizer);
  }
}

TEST_F(TrainRun, ALossThatIsNotFiniteSavesTheLastStateAndSaysWhere) {
  recipe_.set("train.lr", 1e30);
  testing::expect_error([&] { run("diverged"); },
                        {"step 2 stopped", "The state after step 1 is saved"});
  EXPECT_EQ(latest_step("diverged"), 1);
  EXPECT_FALSE(std::filesystem::exists(path("diverged/finished.json")));
}

TEST_F(TrainRun, EachRunOfAProcessHasItsOwnPeakMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps freed memory";
#endif
  const auto peak = [&](const std::string& name) {
    return read_metrics(real_file_system(), path(name + "/metrics.jsonl"))
        .back()
        .at("peak_bytes")
        .get<double>();
  };
  set("train.steps", 1);
  ASSERT_EQ(run("small"), RunOutcome::finished);
  set("model.d_ffn", 24000);
  ASSERT_EQ(run("large"), RunOutcome::finished);
  set("model.d_ffn", 48);
  ASSERT_EQ(run("small again"), RunOutcome::finished);
  if (!ops::restart_peak_memory()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written";
  // 2 layers, 4 experts, 3 · 32 · 24000 weights, each with a gradient and two moments: 295 MB.
  EXPECT_GT(peak("large"), peak("small") + 250e6);
  EXPECT_LT(peak("small again"), peak("small") + 100e6);
}

}  // namespace
}  // namespace penstock
