// A run whose number of steps is raised. The run continues where its steps so far are those of the
// longer run, bit for bit. Otherwise it is refused with a remedy.
#include "penstock/train/longer_run.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>

#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct LongerRun : ::testing::Test {
  void SetUp() override { testing::small_corpus(directory.path()); }

  ConfigNode recipe(std::int64_t steps, const std::string& schedule) const {
    ConfigNode node = testing::small_recipe_node("remoe", 2, 16, path("corpus"));
    node.set("train.steps", steps);
    node.set("train.lr_schedule", schedule);
    node.set("train.final_eval_tokens", 128);
    node.set("run.threads", 1);
    return node;
  }
  std::string path(const std::string& name) const { return directory.path(name); }
  void run(const ConfigNode& node, const std::string& name) const {
    ASSERT_EQ(train_run(node, path(name), {.quiet = true}), RunOutcome::finished);
  }
  std::string refusal(const ConfigNode& node, const std::string& name) const {
    return testing::error_or("accepted", [&] { train_run(node, path(name), {.quiet = true}); });
  }

  testing::TempDirectory directory;
};

TEST_F(LongerRun, AConstantRateGoesOnAsIfItHadBeenAskedForAtOnce) {
  run(recipe(200, "constant"), "part");
  // The warm-up is 2 steps of 200, would be 2 of 260, and is 4 of 400.
  run(recipe(400, "constant"), "part");
  ConfigNode whole = recipe(400, "constant");
  whole.set("train.warmup_steps", 2);
  run(whole, "whole");
  const auto model = [&](const std::string& of) {
    return CheckpointStore(real_file_system(), path(of)).load(400).model;
  };
  const TensorMap ours = model("part"), wanted = model("whole");
  for (const auto& [name, tensor] : wanted) EXPECT_TRUE(ours.at(name).equal(tensor)) << name;
  EXPECT_EQ(read_metrics(real_file_system(), path("part/metrics.jsonl")).size(), 400U);
  const auto finished = nlohmann::json::parse(real_file_system().read(path("part/finished.json")));
  EXPECT_EQ(finished.at("steps"), 400);
}

TEST_F(LongerRun, ADecayedRateIsRefusedWithTheWayOut) {
  run(recipe(6, "cosine"), "decayed");
  const std::string what = refusal(recipe(12, "cosine"), "decayed");
  testing::expect_says(what, {"train.steps: 6 -> 12", "train.lr_schedule = \"cosine\" is laid over",
                              "train.init_from = " + path("decayed")});
  EXPECT_TRUE(fs::exists(path("decayed/finished.json")));  // the run is unchanged
  // Fewer steps are another recipe. So are more steps with another rate.
  testing::expect_says(refusal(recipe(5, "cosine"), "decayed"), {"choose another folder"});
  ConfigNode other = recipe(12, "constant");
  other.set("train.lr", 0.5);
  testing::expect_says(refusal(other, "decayed"), {"of another recipe"});
  EXPECT_EQ(refusal(other, "decayed").find("init_from"), std::string::npos);
}

TEST_F(LongerRun, AScheduleOfExpertsIsAskedForItself) {
  const auto reason = [&](const char* method, const char* over) {
    ConfigNode node = testing::small_recipe_node(method, 2, 16, "unused");
    node.set("train.lr_schedule", "constant");
    node.set("train.steps", 10);
    node.set("model.router.k", 4.0);
    if (over) node.set(over, 5);
    return why_not_longer(read_recipe(node), 20);
  };
  testing::expect_says(reason("smoe-dropout", nullptr), {"schedule of its experts"});
  EXPECT_EQ(reason("smoe-dropout", "model.router.topk.schedule.over"), "");
  EXPECT_EQ(reason("topk", nullptr), "");
}

}  // namespace
}  // namespace penstock
