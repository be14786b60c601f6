// Whole runs of several ranks that write their checkpoints together. The ranks are threads of the
// test. All ranks see the directory, or one rank does not, or a rank's disk is full.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/checkpoints/moment_names.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run.h"
#include "tests/base/error_of.h"
#include "tests/base/forwarding_file_system.h"
#include "tests/base/temp_directory.h"
#include "tests/dist/ranks.h"
#include "tests/models/expect_equal.h"
#include "tests/train/small_run.h"

namespace penstock::shared_run_test {
namespace {

using testing::ForwardingFileSystem;

constexpr int kRanks = 2;
constexpr std::int64_t kSteps = 12;

class SharedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
    testing::small_corpus(directory_.path());
  }
  std::string path(const std::string& name) const { return directory_.path(name); }
  ConfigNode recipe() const {
    ConfigNode out = testing::small_recipe_node("remoe", 2, 16, path("corpus"));
    out.set("train.steps", kSteps);
    out.set("train.micro_batch", 1);
    out.set("train.checkpoint_every", 4);
    out.set("train.keep_last", 9);
    out.set("train.final_eval_tokens", 256);
    out.set("run.threads", 1);
    out.set("train.gradient_sum", "tree");
    out.set("train.moments", moments_);
    return out;
  }
  /// What each rank threw, and what rank 0 printed.
  struct Ended {
    std::vector<std::string> failures;
    std::string said;
  };
  /// @param of_rank_1  the file system of rank 1
  Ended run(const std::string& name, FileSystem& of_rank_1, bool background = true) const {
    ConfigNode divided = recipe();
    divided.set("parallel.zero", 1);
    divided.set("run.background_checkpoints", background);
    std::FILE* const said = std::tmpfile();
    const auto thrown = testing::failures_on_ranks(
        kRanks,
        [&](const dist::ProcessGroup& group) {
          const bool first = group.rank() == 0;
          // Only rank 0 knows the directory.
          EXPECT_EQ(train_run(divided, first ? path(name) : "nowhere",
                              {.quiet = !first,
                               .progress = first ? said : nullptr,
                               .files = first ? &real_file_system() : &of_rank_1,
                               .group = group,
                               .processes_here = kRanks}),
                    RunOutcome::finished);
        },
        {});
    Ended out;
    for (const std::exception_ptr& each : thrown) {
      out.failures.emplace_back();
      try {
        if (each) std::rethrow_exception(each);
      } catch (const std::exception& error) {
        out.failures.back() = error.what();
      }
    }
    out.said.resize(static_cast<std::size_t>(std::ftell(said)));
    std::rewind(said);
    EXPECT_EQ(std::fread(out.said.data(), 1, out.said.size(), said), out.said.size());
    std::fclose(said);
    return out;
  }
  CheckpointStore store(const std::string& name) const { return {real_file_system(), path(name)}; }
  bool has(const std::string& name, std::int64_t step, const std::string& file) const {
    return std::filesystem::exists(store(name).directory(step) / file);
  }
  /// Expects the same weights as one process that was not disturbed.
  void expect_end(const std::string& name) const {
    ASSERT_EQ(train_run(recipe(), path(name + "-alone"), {.quiet = true}), RunOutcome::finished);
    testing::expect_equal(store(name).load(kSteps).model,
                          store(name + "-alone").load(kSteps).model);
  }

  testing::TempDirectory directory_;
  std::string moments_ = "fp32";
};

TEST_F(SharedRun, WritesPiecesWhileTrainingGoesOnOrWaits) {
  for (const bool background : {true, false}) {
    const std::string name = background ? "beside" : "waiting";
    const Ended ended = run(name, real_file_system(), background);
    EXPECT_EQ(ended.failures, std::vector<std::string>(kRanks));
    EXPECT_EQ(ended.said.find("gathers the whole model"), std::string::npos) << ended.said;
    EXPECT_EQ(store(name).steps(), (std::vector<std::int64_t>{4, 8, kSteps}));
    for (const std::int64_t step : {4, 8, 12}) {
      EXPECT_TRUE(has(name, step, "model-00002-of-00002.safetensors"));
      EXPECT_FALSE(has(name, step, "model.safetensors"));
      EXPECT_NO_THROW(store(name).load(step));
    }
    expect_end(name);
  }
}

TEST_F(SharedRun, WritesPiecesOfMomentsInBf16) {
  moments_ = "bf16";
  EXPECT_EQ(run("halves", real_file_system()).failures, std::vector<std::string>(kRanks));
  expect_end("halves");
  const ModelConfig model =
      with_vocabulary(read_recipe(recipe()), Corpus::open(path("corpus"))).model.resolved();
  const TensorMap ours = moments_of_files(model, store("halves").load(kSteps).optimizer),
                  theirs = moments_of_files(model, store("halves-alone").load(kSteps).optimizer);
  EXPECT_GT(theirs.size(), 20U);
  for (const auto& [name, value] : theirs) {
    EXPECT_EQ(ours.at(name).scalar_type(), at::kBFloat16) << name;
    EXPECT_TRUE(torch::equal(ours.at(name), value)) << name;
  }
}

TEST_F(SharedRun, IsWrittenByRankZeroWhereARankSeesOtherFiles) {
  ForwardingFileSystem read_only([](const FileSystem::Path&, Bytes) -> std::size_t { return 0; });
  const Ended ended = run("apart", read_only);
  EXPECT_EQ(ended.failures, std::vector<std::string>(kRanks));
  testing::expect_says(ended.said, {"note: rank 1 on ", "rank 0 gathers the whole model"});
  EXPECT_TRUE(has("apart", kSteps, "model.safetensors"));
  expect_end("apart");
}

/// Rank 1 fails outside of the work that all ranks report to each other.
TEST_F(SharedRun, NamesARankThatFailsByItself) {
  struct Failing : ForwardingFileSystem {
    explicit Failing(bool bug)
        : ForwardingFileSystem([](const Path&, Bytes bytes) { return bytes.size(); }), bug(bug) {}
    bool exists(const Path&) override {
      if (bug) throw std::logic_error("a thing is not there\nand a stack");
      throw std::filesystem::filesystem_error("the cable is out",
                                              std::make_error_code(std::errc::io_error));
    }
    bool bug;
  };
  for (const bool bug : {true, false}) {
    Failing failing(bug);
    const Ended ended = run(bug ? "bug" : "cable", failing);
    const std::string& said = ended.failures[1];
    EXPECT_TRUE(said.starts_with("rank 1 on ")) << said;
    EXPECT_EQ(said.find(": internal error: a thing is not there; ") != said.npos, bug) << said;
    EXPECT_EQ(said.find(": the cable is out") != said.npos, !bug) << said;
    EXPECT_TRUE(said.ends_with("; the last complete step was 0")) << said;
    testing::expect_says(ended.failures[0], {" lost "});
  }
}

TEST_F(SharedRun, EndsWhereTheDiskOfAnyRankIsFullAndGoesOnFromTheCheckpointBefore) {
  for (const bool background : {true, false}) {
    const std::string name = background ? "beside" : "waiting";
    ForwardingFileSystem full([](const FileSystem::Path& file, Bytes bytes) {
      const bool out_of_room = file.string().find("step-8") != std::string::npos;
      return out_of_room ? bytes.size() / 2 : bytes.size();
    });
    const Ended ended = run(name, full, background);
    testing::expect_says(ended.failures[0],
                         {"rank 1 on ", ": cannot save the checkpoint of step 8 in ", "disk full",
                          "Nothing saved before is lost"});
    EXPECT_FALSE(ended.failures[1].empty());
    EXPECT_EQ(store(name).steps(), std::vector<std::int64_t>{4});
    const Ended again = run(name, real_file_system(), background);
    EXPECT_EQ(again.failures, std::vector<std::string>(kRanks));
    testing::expect_says(again.said, {"continuing after step 4"});
    EXPECT_EQ(real_file_system().list(path(name) + "/checkpoints"),
              (std::vector<std::string>{"step-12", "step-4", "step-8"}));
    expect_end(name);
  }
}

}  // namespace
}  // namespace penstock::shared_run_test
