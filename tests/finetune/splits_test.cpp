#include "penstock/finetune/splits.h"

#include <gtest/gtest.h>

#include <set>

#include "penstock/base/error.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/finetune/small_task.h"

namespace penstock {
namespace {

FinetuneConfig config_of(const std::string& protocol) {
  ConfigNode node;
  node.set("protocol", protocol);
  return read_finetune_config(node);
}

class Splits : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  FinetuneSplits load(const FinetuneConfig& config) const {
    return load_finetune_splits(folder_.path().string(), ClassificationFormat::kAuto, config);
  }
  std::string error() const {
    return testing::error_or("", [&] { load(config_of("clean")); });
  }
  testing::TempDirectory folder_;
};

TEST_F(Splits, CleanKeepsTheTestApartAndChoosesByTrainingTexts) {
  testing::write_task(folder_.path(), 400, 50);
  const FinetuneSplits splits = load(config_of("clean"));
  EXPECT_EQ(splits.task, ClassificationFormat::kSst2);
  EXPECT_EQ(splits.train.size() + splits.selection.size(), 400u);
  EXPECT_GT(splits.selection.size(), 5u);
  EXPECT_LT(splits.selection.size(), 40u);
  EXPECT_EQ(splits.test.size(), 50u);
  const std::set<std::string> trained(splits.train.texts.begin(), splits.train.texts.end());
  for (const auto& text : splits.selection.texts) EXPECT_FALSE(trained.contains(text)) << text;
  EXPECT_EQ(splits.hash(), load(config_of("clean")).hash());
  FinetuneConfig other = config_of("clean");
  other.seed = 5;
  EXPECT_NE(splits.hash(), load(other).hash());
}

TEST_F(Splits, AuthorsTestOnWhatTheySelectBy) {
  testing::write_task(folder_.path(), 40, 20);
  const FinetuneSplits splits = load(config_of("authors"));
  EXPECT_EQ(splits.train.size(), 40u);
  EXPECT_EQ(splits.selection.texts, splits.test.texts);
  EXPECT_EQ(splits.test.size(), 20u);
}

TEST_F(Splits, ASingleFileIsDividedInThree) {
  testing::write_letters(folder_.path() / "all.tsv", 500, 4);
  const FinetuneSplits splits = load_finetune_splits(
      folder_.path("all.tsv"), ClassificationFormat::kSst2, config_of("clean"));
  EXPECT_EQ(splits.train.size() + splits.selection.size() + splits.test.size(), 500u);
  EXPECT_NEAR(static_cast<double>(splits.test.size()), 50, 25);
  EXPECT_THROW(load_finetune_splits(folder_.path("all.tsv"), ClassificationFormat::kSst2,
                                    config_of("authors")),
               Error);
}

TEST_F(Splits, FewerTextsAreDrawnBySeed) {
  testing::write_task(folder_.path(), 200, 50);
  FinetuneConfig config = config_of("clean");
  config.most_train = 60;
  config.most_test = 20;
  const FinetuneSplits splits = load(config);
  EXPECT_EQ(splits.train.size() + splits.selection.size(), 60u);
  EXPECT_EQ(splits.test.size(), 20u);
}

TEST_F(Splits, AClassThatIsNeverTrainedIsNamed) {
  write("train.tsv", "sentence\tlabel\nfine\t1\ngood\t1\n");
  write("dev.tsv", "sentence\tlabel\nbad\t0\n");
  testing::expect_says(error(), {"'negative' is in the test set but has no training text"});
}

TEST_F(Splits, AClassWhoseTextsAllGoToTheTestIsNamed) {
  std::string rows = "sentence\tlabel\n";
  for (int i = 0; i < 200; ++i) rows += "text " + std::to_string(i) + "\t1\n";
  // Equal texts stay together. With some seed the class of one text is that of the test alone.
  write("all.tsv", rows + "bad\t0\n");
  FinetuneConfig config = config_of("clean");
  config.test_share = 0.5;
  config.selection_share = 0.2;
  int refused = 0;
  for (config.seed = 0; config.seed < 20; ++config.seed) {
    const std::string said = testing::error_or("", [&] {
      load_finetune_splits(folder_.path("all.tsv"), ClassificationFormat::kSst2, config);
    });
    if (said.empty()) continue;
    testing::expect_says(said, {"'negative' is in the test set but has no training text"});
    ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 20);
}

TEST_F(Splits, AnotherTaskIsRefused) {
  testing::write_task(folder_.path(), 20, 5);
  EXPECT_THROW(load_finetune_splits(folder_.path().string(), ClassificationFormat::kBanking77,
                                    config_of("clean")),
               Error);
}

TEST(FinetuneConfig, ProtocolsFillWhatIsLeftOpen) {
  const FinetuneConfig clean = config_of("clean"), authors = config_of("authors");
  EXPECT_EQ(clean.steps, 0);
  EXPECT_EQ(clean.train_memory, 0);
  EXPECT_FALSE(*clean.train_hypernetwork);
  EXPECT_EQ(authors.steps, 5000);
  EXPECT_EQ(authors.eval_every, 500);
  EXPECT_EQ(authors.train_memory, 128);
  EXPECT_EQ(authors.eval_memory, 512);
  EXPECT_TRUE(*authors.train_hypernetwork);
  ConfigNode node;
  node.set("train_memory", 4);
  EXPECT_THROW(read_finetune_config(node), Error);
  ConfigNode typo;
  typo.set("epoch", 4);
  EXPECT_THROW(read_finetune_config(typo), Error);
}

/// The path of a file in shared/data/cls beside the checkout; empty if it is missing.
std::string public_data(const std::string& name) {
  const auto found =
      std::filesystem::path(PENSTOCK_SOURCE_DIR).parent_path() / "shared" / "data" / "cls" / name;
  return std::filesystem::exists(found) ? found.string() : "";
}

TEST(PublicData, Banking77AndItsLargestClass) {
  const std::string path = public_data("banking77");
  if (path.empty()) GTEST_SKIP() << "missing data: no BANKING77 beside the checkout";
  const FinetuneSplits splits =
      load_finetune_splits(path, ClassificationFormat::kAuto, config_of("clean"));
  EXPECT_EQ(splits.train.classes(), 77);
  EXPECT_EQ(splits.train.size() + splits.selection.size(), 10003u);
  EXPECT_DOUBLE_EQ(majority_accuracy(splits.train, splits.test), 40.0 / 3080);
}

TEST(PublicData, Sst2AndItsLargerClass) {
  const std::string path = public_data("sst2");
  if (path.empty()) GTEST_SKIP() << "missing data: no SST-2 beside the checkout";
  const FinetuneSplits splits =
      load_finetune_splits(path, ClassificationFormat::kSst2, config_of("clean"));
  EXPECT_EQ(splits.train.size() + splits.selection.size(), 67349u);
  EXPECT_DOUBLE_EQ(majority_accuracy(splits.train, splits.test), 444.0 / 872);
}

}  // namespace
}  // namespace penstock
