// Whole runs in a run directory: stopped by a signal, by a full disk in the middle of a checkpoint,
// and continued to the same end as a run that was left alone.
#include "penstock/train/run.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/ops/machine.h"
#include "penstock/train/checkpoints.h"
#include "penstock/train/metrics_log.h"
#include "tests/base/forwarding_file_system.h"
#include "tests/base/temp_directory.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

using testing::ForwardingFileSystem;

constexpr std::int64_t run_steps = 16;

class TrainRun : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::small_corpus(directory_.path());
    recipe_ = testing::small_recipe_node("remoe", 2, 16, path("corpus"));
    set("train.steps", run_steps);
    set("train.checkpoint_every", 4);
    set("train.final_eval_tokens", 256);
    recipe_.set("run.threads", ConfigNode(std::int64_t{1}));
  }
  void set(const std::string& key, std::int64_t value) { recipe_.set(key, ConfigNode(value)); }
  void validate_every(std::int64_t steps) {
    set("train.eval_every", steps);
    validates_ = steps > 0;
  }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  RunOutcome run(const std::string& name, FileSystem* files = nullptr) const {
    return train_run(recipe_, path(name), {.quiet = true, .files = files});
  }
  std::optional<std::int64_t> latest_step(const std::string& name) const {
    const auto search = CheckpointStore(real_file_system(), path(name)).latest();
    return search.found ? std::optional(search.found->step) : std::nullopt;
  }
  /// Runs the whole recipe aside and compares the last checkpoints, bit for bit, and the logs.
  void expect_end_of_an_undisturbed_run(const std::string& name) const {
    ASSERT_EQ(run("undisturbed"), RunOutcome::finished);
    const auto model = [&](const std::string& of) {
      return CheckpointStore(real_file_system(), path(of)).load(run_steps).model;
    };
    const TensorMap ours = model(name), wanted = model("undisturbed");
    ASSERT_EQ(ours.size(), wanted.size());
    for (const auto& [tensor, value] : wanted)
      EXPECT_TRUE(torch::equal(ours.at(tensor), value)) << tensor;
    const auto log = read_metrics(real_file_system(), path(name + "/metrics.jsonl"));
    ASSERT_FALSE(log.empty());
    const std::int64_t first = validates_ ? 0 : 1;
    ASSERT_EQ(static_cast<std::int64_t>(log.size()), run_steps + 1 - first);
    for (std::size_t i = 0; i < log.size(); ++i)
      EXPECT_EQ(log[i].at("step").get<std::int64_t>(), first + static_cast<std::int64_t>(i));
  }

  testing::TempDirectory directory_;
  ConfigNode recipe_;
  bool validates_ = false;  // and so the log has a step 0
};

/// Sends the signal to this process when the run writes its `step`-th line of the log.
ForwardingFileSystem signal_at(int step, int number) {
  return ForwardingFileSystem([=, lines = 0](const FileSystem::Path& path, Bytes bytes) mutable {
    if (path.filename() == "metrics.jsonl" && ++lines == step) ::kill(::getpid(), number);
    return bytes.size();
  });
}

bool signal_in_evaluation = false;

std::unique_ptr<at::ObserverContext> at_operator(const at::RecordFunction& function) {
  // Only evaluation asks for the loss of each token.
  if (signal_in_evaluation &&
      std::string_view(function.name()).find("linear_cross_entropy_rows") != std::string::npos) {
    signal_in_evaluation = false;
    ::raise(SIGTERM);
  }
  return nullptr;
}

/// While alive, one signal comes in the first batch of an evaluation each time it is asked for.
class SignalInEvaluation {
 public:
  SignalInEvaluation()
      : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(at_operator))) {}
  ~SignalInEvaluation() {
    signal_in_evaluation = false;
    at::removeCallback(callback_);
  }
  static void ask() { signal_in_evaluation = true; }

 private:
  at::CallbackHandle callback_;
};

TEST_F(TrainRun, ASignalInTheValidationAtTheBeginningEndsIt) {
  validate_every(4);
  const SignalInEvaluation evaluation;
  SignalInEvaluation::ask();
  EXPECT_EQ(run("signalled"), RunOutcome::interrupted);
  EXPECT_TRUE(read_metrics(real_file_system(), path("signalled/metrics.jsonl")).empty());
  EXPECT_FALSE(latest_step("signalled"));
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("signalled");
}

TEST_F(TrainRun, AValidationThatASignalStoppedIsMadeByTheNextRun) {
  validate_every(5);
  recipe_.set("train.keep_best", ConfigNode(true));
  const SignalInEvaluation evaluation;
  const auto log = [&](const std::string& name) {
    return read_metrics(real_file_system(), path(name + "/metrics.jsonl"));
  };
  for (const std::int64_t step : {std::int64_t{5}, run_steps}) {
    const std::string name = "signalled" + std::to_string(step);
    ForwardingFileSystem files([=, lines = 0](const FileSystem::Path& path, Bytes bytes) mutable {
      // The log begins with step 0.
      if (path.filename() == "metrics.jsonl" && ++lines == step) SignalInEvaluation::ask();
      return bytes.size();
    });
    EXPECT_EQ(run(name, &files), RunOutcome::interrupted);
    EXPECT_EQ(latest_step(name), step);
    EXPECT_EQ(log(name).back().at("step"), step - 1);
    SignalInEvaluation::ask();  // once more
    EXPECT_EQ(run(name), RunOutcome::interrupted);
    EXPECT_EQ(latest_step(name), step);
    EXPECT_EQ(log(name).back().at("step"), step - 1);
    EXPECT_EQ(run(name), RunOutcome::finished);
    expect_end_of_an_undisturbed_run(name);
    const auto ours = log(name), wanted = log("undisturbed");
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].value("loss", 0.0), wanted[i].value("loss", 0.0)) << i;
      ASSERT_EQ(ours[i].contains("validation"), wanted[i].contains("validation")) << i;
      if (ours[i].contains("validation")) EXPECT_EQ(ours[i]["validation"], wanted[i]["validation"]);
    }
    const auto best = [&](const std::string& of) {
      const auto found = CheckpointStore(real_file_system(), path(of)).best().found.value();
      return std::pair(found.step, found.validation_loss);
    };
    EXPECT_EQ(best(name), best("undisturbed"));
  }
}

TEST_F(TrainRun, SignalsSaveTheStepAndTheNextRunContinuesBitwise) {
  std::int64_t before = 0;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    auto files = signal_at(3, number);
    EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted) << number;
    ASSERT_TRUE(latest_step("signalled"));
    // A signal that arrives late lets one more step through.
    EXPECT_GE(*latest_step("signalled"), before + 3);
    EXPECT_LE(*latest_step("signalled"), before + 4);
    EXPECT_FALSE(real_file_system().exists(path("signalled/finished.json")));
    before = *latest_step("signalled");
  }
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("signalled");
}

TEST_F(TrainRun, TransformerXlContinuesBitwiseWithItsMemory) {
  recipe_.set("model.architecture", ConfigNode(std::string("transformer-xl")));
  recipe_.set("model.transformer_xl.dropout", ConfigNode(0.1));
  validate_every(5);
  auto files = signal_at(6, SIGTERM);
  EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted);
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("signalled");
  const auto memory = [&](const std::string& name) {
    return CheckpointStore(real_file_system(), path(name)).load(run_steps).optimizer;
  };
  const TensorMap ours = memory("signalled"), wanted = memory("undisturbed");
  EXPECT_EQ(wanted.at("memory.0.1").sizes(), (std::vector<std::int64_t>{2, 16, 32}));
  for (const auto& [name, tensor] : wanted)
    EXPECT_TRUE(torch::equal(ours.at(name), tensor)) << name;
}

TEST_F(TrainRun, ValidatesAndChoosesTheBestAtTheRecipesNumberOfExperts) {
  recipe_.set("model.router.method", ConfigNode(std::string("topk")));
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
  // The last evaluation is at the model's own.
  std::ifstream file(path("validated/finished.json"));
  const auto finished = nlohmann::json::parse(file);
  EXPECT_NEAR(finished.at("validation").at("active_by_layer")[0].get<double>(), 2, 1e-9);
  EXPECT_NE(finished.at("validation").at("loss").get<double>(), last);
}

TEST_F(TrainRun, SaysOnceThatALossOutweighsTheCrossEntropyAlsoWhereItIsResumed) {
  recipe_.set("model.router.method", ConfigNode(std::string("topk")));
  recipe_.set("model.router.load-balance.coefficient", ConfigNode(100.0));
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
  EXPECT_NE(warning.at("finding").get<std::string>().find("load-balance"), std::string::npos);
  EXPECT_NE(warning.at("remedy").get<std::string>().find("model.router.load-balance.coefficient"),
            std::string::npos);
  // By name among TensorBoard's scalars.
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(path("warned/events")))
    events += real_file_system().read(entry.path());
  for (const char* tag :
       {"auxiliary_losses/load-balance", "train/grad_norm", "train/learning_rate"})
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
}

TEST_F(TrainRun, CountsClippedStepsAcrossAResume) {
  recipe_.set("train.clip", ConfigNode(1e-6));
  set("train.steps", 22);
  set("train.eval_every", 50);  // the log begins with a line of step 0, which is none
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
  EXPECT_NE(finding.find("in 20 of the last 20 steps"), std::string::npos) << finding;
}

TEST_F(TrainRun, TheWarningIsAmongWhatIsShown) {
  recipe_.set("model.router.method", ConfigNode(std::string("topk")));
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
  recipe_.set("model.router.load-balance.coefficient", ConfigNode(100.0));
  const std::string text = shown("shown");
  const auto at = text.find("warning: step 1: the loss of load-balance is ");
  EXPECT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find("warning", at + 1), std::string::npos) << text;
}

TEST_F(TrainRun, MeasuresTheBeginningAndChangesNoBit) {
  set("train.steps", 4);
  set("train.eval_tokens", 64);
  // Each draws, carries or keeps something else from step to step.
  for (const std::string method :
       {"remoe", "noisy-topk", "thor", "hyperrouter", "transformer-xl"}) {
    if (method == "transformer-xl") {
      recipe_.set("model.router.method", ConfigNode(std::string("remoe")));
      recipe_.set("model.architecture", ConfigNode(method));
      recipe_.set("model.transformer_xl.dropout", ConfigNode(0.1));
    } else {
      recipe_.set("model.router.method", ConfigNode(method));
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
    for (const auto& [name, tensor] : blind.model)
      EXPECT_TRUE(torch::equal(ours.model.at(name), tensor)) << method << " " << name;
    for (const auto& [name, tensor] : blind.optimizer)
      EXPECT_TRUE(torch::equal(ours.optimizer.at(name), tensor)) << method << " " << name;
  }
}

TEST_F(TrainRun, ARunThatWasStoppedAtItsBeginningMeasuresThatOnce) {
  validate_every(4);
  auto files = signal_at(1, SIGTERM);
  EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted);
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("signalled");
}

TEST_F(TrainRun, AFullDiskAtACheckpointEndsTheRunAndTheEarlierOneResumes) {
  // 4 is saved, 8 finds the disk full after part of the weights.
  bool second = false;
  ForwardingFileSystem files([&](const FileSystem::Path& path, Bytes bytes) {
    second |= path.string().find("step-8") != std::string::npos;
    return second && path.filename() == "model.safetensors" ? bytes.size() / 2 : bytes.size();
  });
  try {
    run("full", &files);
    FAIL() << "the full disk went unnoticed";
  } catch (const DiskFullError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("disk full"), std::string::npos) << text;
    EXPECT_NE(text.find("checkpoint of step 8"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  ASSERT_TRUE(second);
  EXPECT_EQ(latest_step("full"), 4);
  EXPECT_TRUE(CheckpointStore(real_file_system(), path("full")).latest().ignored.empty());
  EXPECT_EQ(run("full"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("full");
}

TEST_F(TrainRun, ASignalInTheFinalEvaluationLeavesOnlyTheMeasuresToBeRepeated) {
  ForwardingFileSystem files([](const FileSystem::Path& path, Bytes bytes) {
    if (path.string().find("step-16") != std::string::npos && path.filename() == "manifest.json")
      ::kill(::getpid(), SIGTERM);
    return bytes.size();
  });
  set("train.final_eval_tokens", 0);
  EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted);
  EXPECT_EQ(latest_step("signalled"), run_steps);
  EXPECT_FALSE(std::filesystem::exists(path("signalled/finished.json")));
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  EXPECT_TRUE(std::filesystem::exists(path("signalled/finished.json")));
  expect_end_of_an_undisturbed_run("signalled");
}

TEST_F(TrainRun, ALossThatIsNotFiniteSavesTheLastStateAndSaysWhere) {
  recipe_.set("train.lr", ConfigNode(1e30));
  try {
    run("diverged");
    FAIL() << "a loss that is not finite went unnoticed";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("step 2 stopped"), std::string::npos) << text;
    EXPECT_NE(text.find("The state after step 1 is saved"), std::string::npos) << text;
  }
  EXPECT_EQ(latest_step("diverged"), 1);
  EXPECT_FALSE(std::filesystem::exists(path("diverged/finished.json")));
}

TEST_F(TrainRun, EachRunOfAProcessHasItsOwnPeakMemory) {
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

TEST_F(TrainRun, AFinishedRunWhoseLastCheckpointIsDamagedIsTrainedToItsEndAgain) {
  set("train.checkpoint_every", 3);
  ASSERT_EQ(run("whole"), RunOutcome::finished);
  ASSERT_EQ(run("damaged"), RunOutcome::finished);
  const std::string last = "/checkpoints/step-" + std::to_string(run_steps);
  {
    std::fstream file(path("damaged" + last + "/model.safetensors"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    file.write("oops", 4);
  }
  ASSERT_EQ(run("damaged"), RunOutcome::finished);
  EXPECT_EQ(real_file_system().read(path("damaged" + last + "/model.safetensors")),
            real_file_system().read(path("whole" + last + "/model.safetensors")));
}

}  // namespace
}  // namespace penstock
