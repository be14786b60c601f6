// Runs on several corpora, through the whole training command except the command line.
#include "penstock/train/run_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "penstock/data/prepare/prepare.h"
#include "penstock/io/toml.h"
#include "penstock/train/read_recipe.h"
#include "tests/base/error_of.h"
#include "tests/train/run_fixture.h"

namespace penstock {
namespace {

using testing::error_of;

class MixedRun : public testing::TrainRun {
 protected:
  void SetUp() override {
    TrainRun::SetUp();
    other_ = second_corpus("other", "bytes");
  }
  std::string second_corpus(const std::string& name, const std::string& tokenizer) const {
    const std::string text = path(name + ".txt");
    std::ofstream out(text);
    for (int i = 0; i < 3000; ++i) out << "sluice " << i % 7 << (i % 50 == 49 ? ".\n" : " ");
    out.close();
    prepare_corpus({.inputs = {{.path = text}}, .tokenizer = tokenizer, .out = path(name)});
    return path(name);
  }
  /// Sets the recipe's corpora, given as TOML.
  void mix(const std::string& toml) {
    recipe_.set("data", *parse_toml("[data]\ncorpora = " + toml, "test").find("data"));
  }
  std::string error_of_run(const std::string& name) const {
    return error_of([&] { run(name); });
  }
  std::string other_;
};

TEST_F(MixedRun, IsResumedToTheEndOfAnUndisturbedOne) {
  mix("[{path = \"" + path("corpus") + "\", weight = 3}, {path = \"" + other_ + "\"}]");
  set("train.steps", 8);
  EXPECT_EQ(run("cut"), RunOutcome::finished);
  set("train.steps", testing::kRunSteps);
  const Recipe recipe = read_recipe(recipe_);
  EXPECT_EQ(recipe.data.corpus, path("corpus"));  // validation reads the first corpus
  ASSERT_EQ(recipe.data.corpora.size(), 2U);
  EXPECT_EQ(recipe.data.corpora[0].weight, 3);
  EXPECT_EQ(recipe.data.corpora[1].weight, 1);
  ASSERT_EQ(run("whole"), RunOutcome::finished);
  expect_end_of_an_undisturbed_run("whole");
}

TEST_F(MixedRun, HasTheHashOfItsTextsAndShares) {
  DataConfig data{.corpus = path("corpus"), .corpora = {}};
  const std::string alone = open_text(data, true).content_hash();
  EXPECT_EQ(alone, Corpus::open(path("corpus")).content_hash());
  data.corpora = {{.path = path("corpus"), .weight = 1}};
  EXPECT_EQ(open_text(data, true).content_hash(), alone);  // the same run
  data.corpora.push_back({.path = other_, .weight = 1});
  const std::string even = open_text(data, true).content_hash();
  data.corpora[1].weight = 2;
  const std::string uneven = open_text(data, true).content_hash();
  EXPECT_NE(even, alone);
  EXPECT_NE(even, uneven);
  // A corpus at another path is the same corpus.
  std::filesystem::rename(other_, path("moved"));
  data.corpora[1].path = path("moved");
  EXPECT_EQ(open_text(data, true).content_hash(), uneven);
}

TEST_F(MixedRun, SaysWhichCorpusIsMissingOrHasAnotherTokenizer) {
  mix("[{path = \"" + path("corpus") + "\"}, {path = \"" + path("none") + "\"}]");
  testing::expect_says(error_of_run("a"), {"data.corpora.path = " + path("none")});
  const std::string words = second_corpus("words", "words");
  mix("[{path = \"" + path("corpus") + "\"}, {path = \"" + words + "\"}]");
  testing::expect_says(error_of_run("b"), {"have different tokenizers (bytes and words"});
  mix("[{path = \"" + path("corpus") + "\", wieght = 3}]");
  testing::expect_says(error_of_run("c"), {"wieght"});
  mix("[{path = \"" + path("corpus") + "\", weight = -3}]");
  testing::expect_says(error_of_run("d"), {"positive"});
}

}  // namespace
}  // namespace penstock
