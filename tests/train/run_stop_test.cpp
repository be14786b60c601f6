// Whole runs that a signal or a full disk stops. Continued, they end as a run that was not
// disturbed.
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <vector>

#include "penstock/base/file_lock.h"
#include "tests/base/error_of.h"
#include "tests/train/heard_hangups.h"
#include "tests/train/run_fixture.h"
#include "tests/train/signal_at.h"

namespace penstock {
namespace {

using testing::ForwardingFileSystem;
using testing::kRunSteps;
using testing::signal_at;
using testing::TrainRun;

bool signal_in_evaluation = false;

std::unique_ptr<at::ObserverContext> at_operator(const at::RecordFunction& function) {
  // Only evaluation computes the loss of each token.
  if (signal_in_evaluation &&
      std::string_view(function.name()).find("linear_cross_entropy_rows") != std::string::npos) {
    signal_in_evaluation = false;
    ::raise(SIGTERM);
  }
  return nullptr;
}

/// While an object of this class exists, each ask() raises one signal in the first batch of an
/// evaluation.
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

TEST_F(TrainRun, WhoeverHearsTheLogSeesEachLineOnceAndMayStopTheRun) {
  std::vector<std::int64_t> heard;
  const auto run_until = [&](std::int64_t last) {
    return train_run(recipe_, path("heard"),
                     {.quiet = true, .logged = [&](const nlohmann::ordered_json& line) {
                        heard.push_back(line.at("step"));
                        return line.at("step") < last;
                      }});
  };
  EXPECT_EQ(run_until(6), RunOutcome::interrupted);
  EXPECT_EQ(latest_step("heard"), 6);
  // Before the work that follows the last step.
  EXPECT_EQ(run_until(kRunSteps), RunOutcome::interrupted);
  EXPECT_FALSE(std::filesystem::exists(path("heard/finished.json")));
  EXPECT_EQ(run_until(kRunSteps + 1), RunOutcome::finished);
  std::vector<std::int64_t> all(kRunSteps);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(heard, all);
  expect_end_of_an_undisturbed_run("heard");
}

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
  recipe_.set("train.keep_best", true);
  const SignalInEvaluation evaluation;
  const auto log = [&](const std::string& name) {
    return read_metrics(real_file_system(), path(name + "/metrics.jsonl"));
  };
  for (const std::int64_t step : {std::int64_t{5}, kRunSteps}) {
    const std::string name = "signalled" + std::to_string(step);
    ForwardingFileSystem files([=, lines = 0](const FileSystem::Path& path, Bytes bytes) mutable {
      // The log begins with step 0.
      if (path.filename() == "metrics.jsonl" && ++lines == step) SignalInEvaluation::ask();
      return bytes.size();
    });
    EXPECT_EQ(run(name, &files), RunOutcome::interrupted);
    EXPECT_EQ(latest_step(name), step);
    EXPECT_EQ(log(name).back().at("step"), step - 1);
    SignalInEvaluation::ask();  // a second signal
    EXPECT_EQ(run(name), RunOutcome::interrupted);
    EXPECT_EQ(latest_step(name), step);
    EXPECT_EQ(log(name).back().at("step"), step - 1);
    EXPECT_EQ(run(name), RunOutcome::finished);
    expect_end_of_an_undisturbed_run(name);
    const auto ours = log(name), wanted = log("undisturbed");
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].value("loss", 0.0), wanted[i].value("loss", 0.0)) << i;
      ASSERT_EQ(ours[i].contains("validation"), wanted[i].contains("validation")) << i;
      if (ours[i].contains("validation")) {
        EXPECT_EQ(ours[i]["validation"], wanted[i]["validation"]);
      }
    }
    const auto best = [&](const std::string& of) {
      const auto found = CheckpointStore(real_file_system(), path(of)).best().found.value();
      return std::pair(found.step, found.validation_loss);
    };
    EXPECT_EQ(best(name), best("undisturbed"));
  }
}

TEST_F(TrainRun, SignalsSaveTheStepAndTheNextRunContinuesBitwise) {
  const testing::HeardHangups heard;
  std::int64_t before = 0;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    auto files = signal_at(3, number);
    EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted) << number;
    ASSERT_TRUE(latest_step("signalled"));
    // A signal that arrives late lets the run make one more step.
    EXPECT_GE(*latest_step("signalled"), before + 3);
    EXPECT_LE(*latest_step("signalled"), before + 4);
    EXPECT_FALSE(real_file_system().exists(path("signalled/finished.json")));
    before = *latest_step("signalled");
  }
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("signalled");
}

TEST_F(TrainRun, TransformerXlContinuesBitwiseWithItsMemory) {
  recipe_.set("model.architecture", "transformer-xl");
  recipe_.set("model.transformer_xl.dropout", 0.1);
  validate_every(5);
  auto files = signal_at(6, SIGTERM);
  EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted);
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("signalled");
  const auto memory = [&](const std::string& name) {
    return CheckpointStore(real_file_system(), path(name)).load(kRunSteps).optimizer;
  };
  const TensorMap wanted = memory("undisturbed");
  EXPECT_EQ(wanted.at("memory.0.1").sizes(), (std::vector<std::int64_t>{2, 16, 32}));
  testing::expect_equal(memory("signalled"), wanted);
}

TEST_F(TrainRun, ARunThatWasStoppedAtItsBeginningMeasuresThatOnce) {
  validate_every(4);
  auto files = signal_at(1, SIGTERM);
  EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted);
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("signalled");
}

TEST_F(TrainRun, AFullDiskAtACheckpointEndsTheRunAndTheEarlierOneResumes) {
  // The checkpoint of step 4 is saved. The one of step 8 finds the disk full after part of the
  // weights.
  std::atomic<bool> second = false;  // set by the thread that writes checkpoints
  ForwardingFileSystem files([&](const FileSystem::Path& path, Bytes bytes) {
    if (path.string().find("step-8") != std::string::npos) second = true;
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

TEST_F(TrainRun, ARunWhoseFolderIsDeletedOrMovedEndsAndMakesNoOther) {
  for (const bool moved : {false, true}) {
    const std::string folder = path("run"), place = path("elsewhere");
    ForwardingFileSystem files([&, lines = 0](const FileSystem::Path& file, Bytes bytes) mutable {
      if (file.filename() == "metrics.jsonl" && ++lines == 3) {
        if (moved)
          std::filesystem::rename(folder, place);
        else
          std::filesystem::remove_all(folder);
      }
      return bytes.size();
    });
    testing::expect_error([&] { run("run", &files); },
                          {folder + ": was deleted, moved or replaced"});
    EXPECT_FALSE(std::filesystem::exists(folder));
  }
  std::filesystem::rename(path("elsewhere"), path("run"));
  EXPECT_EQ(run("run"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("run");
}

TEST_F(TrainRun, ARunWhoseLockFileIsDeletedMakesItAnewAndGoesOn) {
  const std::string lock = path("run/.lock");
  std::optional<FileLock> other;
  for (const bool taken : {true, false}) {
    ForwardingFileSystem files([&, lines = 0](const FileSystem::Path& file, Bytes bytes) mutable {
      if (file.filename() == "metrics.jsonl" && ++lines == 3) {
        std::filesystem::remove(lock);
        if (taken) other.emplace(lock);
      }
      return bytes.size();
    });
    if (taken) {
      testing::expect_error([&] { run("run", &files); },
                            {lock + ": was deleted, and another process"});
      EXPECT_FALSE(latest_step("run"));
      other.reset();
    } else {
      EXPECT_EQ(run("run", &files), RunOutcome::finished);
      EXPECT_TRUE(std::filesystem::exists(lock));
    }
  }
  expect_end_of_an_undisturbed_run("run");
}

TEST_F(TrainRun, ASignalInTheFinalEvaluationLeavesOnlyTheMeasuresToBeRepeated) {
  ForwardingFileSystem files([](const FileSystem::Path& path, Bytes bytes) {
    if (path.string().find("step-16") != std::string::npos && path.filename() == "manifest.json")
      ::kill(::getpid(), SIGTERM);
    return bytes.size();
  });
  set("train.final_eval_tokens", 0);
  EXPECT_EQ(run("signalled", &files), RunOutcome::interrupted);
  EXPECT_EQ(latest_step("signalled"), kRunSteps);
  EXPECT_FALSE(std::filesystem::exists(path("signalled/finished.json")));
  EXPECT_EQ(run("signalled"), RunOutcome::finished);
  EXPECT_TRUE(std::filesystem::exists(path("signalled/finished.json")));
  expect_end_of_an_undisturbed_run("signalled");
}

TEST_F(TrainRun, AFinishedRunWhoseLastCheckpointIsDamagedIsTrainedToItsEndAgain) {
  set("train.checkpoint_every", 3);
  ASSERT_EQ(run("whole"), RunOutcome::finished);
  ASSERT_EQ(run("damaged"), RunOutcome::finished);
  const std::string last = "/checkpoints/step-" + std::to_string(kRunSteps);
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
