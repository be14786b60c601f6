// A run's checkpoints that are written while training continues: their contents, what waits for
// what, and where a failed write is reported.
#include "penstock/train/run_saver.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/run_loop.h"
#include "tests/base/error_of.h"
#include "tests/base/forwarding_file_system.h"
#include "tests/base/temp_directory.h"
#include "tests/train/run_fixture.h"

namespace penstock {
namespace {

using testing::ForwardingFileSystem;
using testing::TempDirectory;
using testing::TrainRun;
using namespace std::chrono_literals;

/// The number of lines of the log. Another thread waits for lines.
class Lines {
 public:
  int add() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
    return ++count_;
  }
  /// Waits for `count` lines. Returns whether they came in time.
  bool reach(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, [&] { return count_ >= count; });
  }
  /// The number of lines after a pause in which more lines could come.
  int after_a_while() {
    std::this_thread::sleep_for(50ms);
    const std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// Counts the lines of the log. Calls `fits(bytes)` before the weights of step 4 are written.
ForwardingFileSystem held_up(Lines& lines, const std::function<std::size_t(std::size_t)>& fits,
                             const std::function<void(int)>& at_line = {}) {
  return ForwardingFileSystem([&lines, fits, at_line](const FileSystem::Path& path, Bytes bytes) {
    if (path.filename() == "metrics.jsonl") {
      const int count = lines.add();
      if (at_line) at_line(count);
    }
    const bool weights = path.filename() == "model.safetensors" &&
                         path.parent_path().string().find("step-4") != std::string::npos;
    return weights ? fits(bytes.size()) : bytes.size();
  });
}

/// A task whose model and optimizer count the steps, in place.
class CountingTask : public RunTask {
 public:
  RunPlan planned{.steps = 10,
                  .checkpoint_every = 4,
                  .copy_bytes = 1,
                  .memory_left = 1,
                  .checkpoints = {.keep_last = 9},
                  .tensorboard = false,
                  .result_file = "finished.json"};

  RunPlan plan() const override { return planned; }
  std::vector<std::string> notes() const override { return {}; }
  std::string config_text() const override { return "counts = true\n"; }
  std::int64_t check_same_run(const std::string&) const override { return 0; }
  std::int64_t step() const override { return step_; }
  StepOutcome advance(const StepWatch&) override {
    ++step_;
    weight_ += 1;
    moment_ += 2;
    return {.seconds = 1};
  }
  MachineRecord machine() const override { return {}; }
  CheckpointContents contents() override {
    return {.model = {{"w", weight_}},
            .config_json = "{}",
            .optimizer = {{"m.w", moment_}},
            .trainer = nlohmann::json::object()};
  }
  void restore(const CheckpointInfo& info, const CheckpointContents& contents) override {
    step_ = info.step;
    weight_.copy_(contents.model.at("w"));
    moment_.copy_(contents.optimizer.at("m.w"));
  }
  std::optional<Measured> measure(nlohmann::ordered_json&, const MeasureWatch&) override {
    return std::nullopt;
  }
  nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>&, CheckpointStore&,
                                const MeasureWatch&) override {
    return nlohmann::ordered_json::object();
  }
  std::string summary(const nlohmann::ordered_json&) const override { return ""; }
  void keep_waiting() override { ++kept_waiting; }

  std::atomic<int> kept_waiting = 0;  // calls of keep_waiting()

 private:
  std::int64_t step_ = 0;
  at::Tensor weight_ = torch::zeros({5}), moment_ = torch::zeros({5});
};

/// A task that gathers its model for each checkpoint as one tensor. The file's tensors are views of
/// this tensor.
class GatheringTask : public CountingTask {
 public:
  explicit GatheringTask(bool keeps) : keeps_(keeps) {}
  CheckpointContents contents() override {
    CheckpointContents out = CountingTask::contents();
    const at::Tensor whole = torch::full({2, 5}, double(step()));
    out.model = {{"w.0", whole[0]}, {"w.1", whole[1]}};
    if (keeps_) kept_ = whole;
    if (step() == 4) begin_ = static_cast<const std::byte*>(whole.data_ptr());
    return out;
  }
  /// Whether the bytes lie in the tensor that was gathered for step 4.
  bool gathered(Bytes bytes) const {
    return bytes.data() >= begin_ && bytes.data() < begin_ + 10 * sizeof(float);
  }

 private:
  bool keeps_;
  at::Tensor kept_;
  std::atomic<const std::byte*> begin_ = nullptr;
};

class CheckpointsBeside : public ::testing::Test {
 protected:
  std::string run_directory() const { return directory_.path("run"); }
  RunOutcome run(CountingTask& task, FileSystem* files = nullptr) const {
    return run_task(task, run_directory(), {.quiet = true, .files = files});
  }
  CheckpointStore store() const { return {real_file_system(), run_directory()}; }
  bool exists(const std::string& name) const {
    return std::filesystem::exists(run_directory() + "/" + name);
  }
  void expect_counts(std::int64_t step) const {
    const CheckpointContents found = store().load(step);
    EXPECT_TRUE(torch::equal(found.model.at("w"), torch::full({5}, double(step)))) << step;
    EXPECT_TRUE(torch::equal(found.optimizer.at("m.w"), torch::full({5}, 2.0 * step))) << step;
  }
  /// Expects that the run fails with a message that names step 4 and the full disk.
  void expect_full_disk(CountingTask& task, FileSystem* files) const {
    try {
      run(task, files);
      FAIL() << "the full disk went unnoticed";
    } catch (const DiskFullError& error) {
      const std::string text = error.what();
      testing::expect_says(text, {"cannot save the checkpoint of step 4 in"});
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
    EXPECT_FALSE(exists("finished.json"));
    EXPECT_TRUE(real_file_system().list(run_directory() + "/checkpoints").empty());
  }

  TempDirectory directory_;
  Lines lines_;
};

TEST_F(CheckpointsBeside, TrainingGoesOnUntilTheNextCheckpointWhichWaits) {
  auto files = held_up(lines_, [&](std::size_t bytes) {
    EXPECT_TRUE(lines_.reach(8)) << "training waited for the checkpoint of step 4";
    EXPECT_EQ(lines_.after_a_while(), 8) << "the checkpoint of step 8 did not wait";
    EXPECT_FALSE(exists("checkpoints/step-4"));
    EXPECT_FALSE(exists("checkpoints/step-8"));
    return bytes;
  });
  CountingTask task;
  EXPECT_EQ(run(task, &files), RunOutcome::finished);
  for (const std::int64_t step : {4, 8, 10}) expect_counts(step);
  std::vector<std::int64_t> after_checkpoints;
  for (const auto& line : read_metrics(real_file_system(), run_directory() + "/metrics.jsonl"))
    if (line.contains("checkpoint_seconds")) after_checkpoints.push_back(line.at("step"));
  EXPECT_EQ(after_checkpoints, (std::vector<std::int64_t>{5, 9}));
}

TEST_F(CheckpointsBeside, TrainingWaitsWhereNoCopyIsWantedOrFits) {
  for (const std::int64_t copy : {0, 2}) {
    Lines lines;
    CountingTask task;
    task.planned.copy_bytes = copy;  // 1 byte of memory is left for it
    auto files = held_up(lines, [&](std::size_t bytes) {
      EXPECT_EQ(lines.after_a_while(), 4);
      return bytes;
    });
    std::FILE* said = std::tmpfile();
    EXPECT_EQ(
        run_task(task, run_directory() + std::to_string(copy), {.progress = said, .files = &files}),
        RunOutcome::finished);
    std::string text(static_cast<std::size_t>(std::ftell(said)), ' ');
    std::rewind(said);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), said), text.size());
    std::fclose(said);
    EXPECT_EQ(text.find("note: training waits while checkpoints are written: ") != text.npos,
              copy > 0)
        << text;
  }
}

/// The other ranks keep waiting while rank 0 waits for the disk, and while it reads a checkpoint.
TEST_F(CheckpointsBeside, TheOthersKeepWaitingWhileOneWritesOrReads) {
  for (const bool background : {true, false}) {
    const std::string directory = run_directory() + (background ? "-beside" : "-waiting");
    CountingTask task;
    task.planned.copy_bytes = background ? 1 : 0;
    std::atomic<bool> kept = false;
    auto files = held_up(lines_, [&](std::size_t bytes) {
      for (int i = 0; i < 3000 && task.kept_waiting < 2; ++i) std::this_thread::sleep_for(10ms);
      kept = task.kept_waiting >= 2;
      return bytes;
    });
    EXPECT_EQ(run_task(task, directory, {.quiet = true, .files = &files}), RunOutcome::finished);
    EXPECT_TRUE(kept) << background;
    CountingTask again;
    EXPECT_EQ(run_task(again, directory, {.quiet = true}), RunOutcome::finished);
    EXPECT_EQ(again.step(), 10);
    EXPECT_GT(again.kept_waiting, 0) << "while the checkpoint was read";
  }
}

TEST_F(CheckpointsBeside, WhatWasGatheredForThemAloneIsNotCopied) {
  for (const bool keeps : {false, true}) {
    GatheringTask task(keeps);
    std::atomic<int> written = 0;  // pieces from the gathered tensor
    ForwardingFileSystem files([&](const FileSystem::Path& path, Bytes bytes) {
      const bool of_step_4 = path.string().find("step-4") != std::string::npos;
      written += of_step_4 && task.gathered(bytes) ? 1 : 0;
      return bytes.size();
    });
    EXPECT_EQ(
        run_task(task, run_directory() + (keeps ? "-kept" : ""), {.quiet = true, .files = &files}),
        RunOutcome::finished);
    EXPECT_EQ(written > 0, !keeps);
  }
}

TEST_F(CheckpointsBeside, AFailureEndsTheRunAtTheNextCheckpointAtTheLatest) {
  CountingTask task;
  task.planned.steps = 1000;
  auto files = held_up(lines_, [](std::size_t bytes) { return bytes / 2; });
  expect_full_disk(task, &files);
  EXPECT_LE(lines_.after_a_while(), 8);
  CountingTask again;
  EXPECT_EQ(run(again), RunOutcome::finished);
  expect_counts(10);
}

TEST_F(CheckpointsBeside, AFailureAfterTheLastStepIsSaid) {
  CountingTask task;
  task.planned.steps = 7;
  auto files = held_up(lines_, [&](std::size_t) {
    EXPECT_TRUE(lines_.reach(7));
    return 0;
  });
  expect_full_disk(task, &files);
}

TEST_F(CheckpointsBeside, AnErrorOfTheSystemIsSaidAsItIs) {
  CountingTask task;
  auto files = held_up(lines_, [&](std::size_t) -> std::size_t { fail("the cable is out"); });
  EXPECT_EQ(testing::error_of([&] { run(task, &files); }), "the cable is out");
}

TEST_F(CheckpointsBeside, ASignalWaitsForWhatIsBeingWritten) {
  const auto signal = [](int line) {
    if (line == 6) ::kill(::getpid(), SIGTERM);
  };
  CountingTask task;
  task.planned.steps = 1000;
  auto files = held_up(
      lines_,
      [&](std::size_t bytes) {
        EXPECT_TRUE(lines_.reach(6));
        return bytes;
      },
      signal);
  EXPECT_EQ(run(task, &files), RunOutcome::interrupted);
  expect_counts(4);
  expect_counts(task.step());
  EXPECT_LE(task.step(), 8);
}

TEST_F(CheckpointsBeside, ASignalAtTheStepThatIsBeingWrittenDoesNotHideItsFailure) {
  CountingTask task;
  auto files = held_up(
      lines_,
      [](std::size_t) {
        std::this_thread::sleep_for(50ms);
        return 0;
      },
      [](int line) {
        if (line == 4) ::raise(SIGTERM);
      });
  expect_full_disk(task, &files);
}

TEST_F(TrainRun, ACheckpointWrittenBesideTrainingHasTheBitsOfItsStep) {
  set("train.keep_last", 9);
  Lines lines;
  auto files = held_up(lines, [&](std::size_t bytes) {
    EXPECT_TRUE(lines.reach(7));
    return bytes;
  });
  ASSERT_EQ(run("beside", &files), RunOutcome::finished);
  recipe_.set("run.background_checkpoints", false);
  Lines waiting;
  auto watched = held_up(waiting, [&](std::size_t bytes) {
    EXPECT_EQ(waiting.after_a_while(), 4);
    return bytes;
  });
  ASSERT_EQ(run("waiting", &watched), RunOutcome::finished);
  for (const std::int64_t step : {4, 8, 12, 16})
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "trainer.json"}) {
      const std::string file = concat("/checkpoints/step-", step, "/", name);
      EXPECT_EQ(real_file_system().read(path("beside" + file)),
                real_file_system().read(path("waiting" + file)))
          << file;
    }
}

}  // namespace
}  // namespace penstock
