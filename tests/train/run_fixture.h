// The fixture of tests of whole runs: a small recipe and its runs.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <optional>
#include <string>

#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/run.h"
#include "tests/base/temp_directory.h"
#include "tests/models/expect_equal.h"
#include "tests/train/small_run.h"

namespace penstock::testing {

constexpr std::int64_t kRunSteps = 16;

/// A recipe of sixteen steps. Each run has its own folder.
class TrainRun : public ::testing::Test {
 protected:
  void SetUp() override {
    small_corpus(directory_.path());
    recipe_ = small_recipe_node("remoe", 2, 16, path("corpus"));
    set("train.steps", kRunSteps);
    set("train.checkpoint_every", 4);
    set("train.final_eval_tokens", 256);
    recipe_.set("run.threads", 1);
  }
  void set(const std::string& key, std::int64_t value) { recipe_.set(key, value); }
  void validate_every(std::int64_t steps) {
    set("train.eval_every", steps);
    validates_ = steps > 0;
  }
  std::string path(const std::string& name) const { return directory_.path(name); }
  RunOutcome run(const std::string& name, FileSystem* files = nullptr) const {
    return train_run(recipe_, path(name), {.quiet = true, .files = files});
  }
  std::optional<std::int64_t> latest_step(const std::string& name) const {
    const auto search = CheckpointStore(real_file_system(), path(name)).latest();
    return search.found ? std::optional(search.found->step) : std::nullopt;
  }
  /// Runs the whole recipe in another folder. Compares the last checkpoints bit for bit, and checks
  /// the steps of the log.
  void expect_end_of_an_undisturbed_run(const std::string& name) const {
    ASSERT_EQ(run("undisturbed"), RunOutcome::finished);
    const auto model = [&](const std::string& of) {
      return CheckpointStore(real_file_system(), path(of)).load(kRunSteps).model;
    };
    expect_equal(model(name), model("undisturbed"));
    const auto log = read_metrics(real_file_system(), path(name + "/metrics.jsonl"));
    ASSERT_FALSE(log.empty());
    const std::int64_t first = validates_ ? 0 : 1;
    ASSERT_EQ(static_cast<std::int64_t>(log.size()), kRunSteps + 1 - first);
    for (std::size_t i = 0; i < log.size(); ++i)
      EXPECT_EQ(log[i].at("step").get<std::int64_t>(), first + static_cast<std::int64_t>(i));
  }

  TempDirectory directory_;
  ConfigNode recipe_;
  bool validates_ = false;  // if so, the log has a step 0
};

}  // namespace penstock::testing
