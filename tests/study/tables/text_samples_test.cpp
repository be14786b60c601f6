#include "penstock/study/tables/text_samples.h"

#include <gtest/gtest.h>

#include "penstock/train/run.h"
#include "tests/study/fixture.h"
#include "tests/train/small_run.h"

namespace penstock::study {
namespace {

struct StudyTextSamples : ::testing::Test {
  testing::TemporaryDirectory folder;
  std::string run(const std::string& method, std::int64_t context = 0) {
    penstock::testing::small_corpus(folder.path());
    ConfigNode recipe = penstock::testing::small_recipe_node(method, 2, 16, folder.path("corpus"));
    recipe.set("train.steps", 2);
    recipe.set("train.final_eval_tokens", 64);
    recipe.set("run.threads", 1);
    if (context > 0) recipe.set("model.context", context);
    const std::string directory = folder.path(method);
    EXPECT_EQ(train_run(recipe, directory, {.quiet = true}), RunOutcome::finished);
    return directory;
  }
};

TEST_F(StudyTextSamples, ContinueHeldOutTextTheSameWayEachTime) {
  const std::string directory = run("topk");
  EXPECT_FALSE(read_text_samples(directory));
  write_text_samples(directory);
  const std::string first = testing::read_text(directory + "/samples.json");
  const auto samples = read_text_samples(directory);
  ASSERT_TRUE(samples);
  ASSERT_EQ(samples->samples.size(), 2u);
  for (const TextSample& sample : samples->samples) {
    EXPECT_EQ(sample.prompt.size(), 8u);  // half of a sequence, in bytes
    EXPECT_FALSE(sample.text.empty());
  }
  EXPECT_NE(samples->samples[0].text, samples->samples[1].text);
  write_text_samples(directory);
  EXPECT_EQ(testing::read_text(directory + "/samples.json"), first);
}

TEST_F(StudyTextSamples, FitIntoTheContext) {
  const std::string directory = run("topk", 4);
  write_text_samples(directory);
  const auto samples = read_text_samples(directory);
  ASSERT_TRUE(samples);
  ASSERT_EQ(samples->samples.size(), 2u);
  for (const TextSample& sample : samples->samples) EXPECT_EQ(sample.prompt.size(), 2u);
}

TEST_F(StudyTextSamples, AModelThatLooksAheadRefuses) {
  const std::string directory = run("gshard");
  write_text_samples(directory);
  const auto samples = read_text_samples(directory);
  ASSERT_TRUE(samples);
  EXPECT_TRUE(samples->samples.empty());
  EXPECT_NE(samples->refused.find("depends on tokens after it"), std::string::npos);
}

}  // namespace
}  // namespace penstock::study
