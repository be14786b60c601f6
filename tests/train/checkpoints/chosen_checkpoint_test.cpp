// The choice of a checkpoint of a run that still trains. If the checkpoint is removed while it is
// read, another is chosen. The removals come at fixed points of the reading, not by chance.
#include "penstock/train/checkpoints/chosen_checkpoint.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "tests/base/forwarding_file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

CheckpointContents contents() {
  return {.model = {{"w", torch::ones({4})}},
          .config_json = "{}",
          .optimizer = {{"m", torch::ones({4})}},
          .trainer = {{"step", 1}}};
}

struct Model {
  std::string path;
};

class LiveRun : public ::testing::Test {
 protected:
  void save(std::int64_t step, std::optional<double> loss = std::nullopt) {
    CheckpointStore(real_file_system(), run(), {.keep_last = 1, .keep_best = true})
        .save(step, contents(), loss);
  }
  std::string run() const { return directory_.path("run"); }
  Model choose() const {
    return {chosen_checkpoint(real_file_system(), run()).found->directory.string()};
  }
  std::string step(std::int64_t step) const {
    return run() + "/checkpoints/step-" + std::to_string(step);
  }

  testing::TempDirectory directory_;
};

/// The current directory while it lives.
class InDirectory {
 public:
  explicit InDirectory(const fs::path& path) : before_(fs::current_path()) {
    fs::current_path(path);
  }
  ~InDirectory() { fs::current_path(before_); }
  InDirectory(const InDirectory&) = delete;
  InDirectory& operator=(const InDirectory&) = delete;

 private:
  fs::path before_;
};

TEST_F(LiveRun, IsARunDirectoryByItsCheckpointsAndNotByThoseOfTheCurrentFolder) {
  save(1);
  const InDirectory here(run());
  EXPECT_TRUE(is_run_directory(run()));
  EXPECT_TRUE(is_run_directory("."));
  EXPECT_FALSE(is_run_directory(""));
}

/// Calls `train(n)` after the n-th listing of a directory, as if another process trained.
class TrainingOnWhenListed : public testing::ForwardingFileSystem {
 public:
  explicit TrainingOnWhenListed(std::function<void(int)> train)
      : ForwardingFileSystem([](const Path&, Bytes bytes) { return bytes.size(); }),
        train_(std::move(train)) {}
  std::vector<std::string> list(const Path& path) override {
    auto names = ForwardingFileSystem::list(path);
    train_(++lists_);
    return names;
  }

 private:
  std::function<void(int)> train_;
  int lists_ = 0;
};

TEST_F(LiveRun, ReadingIsRepeatedWhenItsCheckpointIsRemoved) {
  save(2);
  std::vector<std::string> read, gone;
  const std::string result = using_what_is_there(
      [&] { return choose(); },
      [&](const Model& model) {
        read.push_back(model.path);
        if (read.size() == 1) save(4);  // this removes step 2
        return real_file_system().read(fs::path(model.path) / "config.json") + model.path;
      },
      [&](const Model& model) { gone.push_back(model.path); });
  EXPECT_EQ(read, (std::vector{step(2), step(4)}));
  EXPECT_EQ(gone, (std::vector{step(2)}));
  EXPECT_EQ(result, "{}" + step(4));
}

TEST_F(LiveRun, AnotherErrorIsNotRepeated) {
  save(2);
  int tries = 0;
  EXPECT_THROW(using_what_is_there([&] { return choose(); },
                                   [&](const Model&) -> int {
                                     ++tries;
                                     fail("the tensor is wrong");
                                   },
                                   [](const Model&) {}),
               Error);
  EXPECT_EQ(tries, 1);
}

TEST_F(LiveRun, ItIsGivenUpAfterSoManyRemovals) {
  save(1);
  int tries = 0;
  const auto read = [&](const Model& model) {
    save(++tries + 1);
    return real_file_system().read(fs::path(model.path) / "config.json");
  };
  EXPECT_THROW(using_what_is_there([&] { return choose(); }, read, [](const Model&) {}), Error);
  EXPECT_EQ(tries, kMostChoices);
}

TEST_F(LiveRun, WhatIsRemovedDuringTheSearchIsSearchedAgainAndNotCalledDamaged) {
  save(2);
  TrainingOnWhenListed files([&](int lists) {
    if (lists <= 2)
      save(2 + lists);  // after the search for the best, then after the search for the newest
  });
  const CheckpointSearch search = chosen_checkpoint(files, run());
  EXPECT_EQ(search.found->step, 4);
  EXPECT_EQ(search.ignored, std::vector<std::string>());
}

TEST_F(LiveRun, TheBestIsTakenBeforeTheNewest) {
  save(2, 1.5);
  save(4, 2.5);
  save(6, 3.5);
  EXPECT_EQ(choose().path, step(2));
}

}  // namespace
}  // namespace penstock
