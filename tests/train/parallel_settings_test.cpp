// What several processes ask of a recipe.
#include "penstock/train/parallel_settings.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/base/threads.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/run_identity.h"
#include "tests/train/recipe_text.h"

namespace penstock {
namespace {

using testing::recipe_from;
using testing::refusal_of;

std::string refusal(const std::vector<std::string>& overrides, int processes) {
  try {
    check_processes(recipe_from(overrides), processes);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

void expect_said(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ParallelSettings, NeedAMicroBatchForEachProcess) {
  EXPECT_EQ(refusal({}, 1), "accepted");
  EXPECT_EQ(refusal({"train.micro_batch=2"}, 4), "accepted");
  EXPECT_EQ(refusal({"train.micro_batch=2"}, 3), "accepted");
  expect_said(refusal({}, 2), {"2 processes", "train.micro_batch = 8 makes 1",
                               "set train.micro_batch to 4 or less"});
  expect_said(refusal({"train.micro_batch=2"}, 5), {"makes 4 of them", "to 1 or less"});
}

TEST(ParallelSettings, SayWhereTheNumberOfProcessesIsAnother) {
  EXPECT_EQ(refusal({"train.micro_batch=2", "parallel.data=2"}, 2), "accepted");
  expect_said(refusal({"train.micro_batch=2", "parallel.data=2"}, 1),
              {"parallel.data = 2, but 1 process trains", "--processes 2"});
  expect_said(refusal({"train.micro_batch=2", "run.device=cuda"}, 2), {"run.device = 'cuda'"});
  expect_said(refusal({"train.micro_batch=2", "train.gradient_sum=in-turn"}, 2),
              {"train.gradient_sum = \"in-turn\" is for one process"});
}

TEST(ParallelSettings, KnowNoOtherKindOfParallelism) {
  for (const std::string key : {"tensor", "pipeline", "expert", "context"})
    expect_said(refusal_of({"parallel." + key + "=2"}), {"parallel." + key});
}

TEST(ParallelSettings, AddGradientsAsTheRunBegan) {
  const auto chosen = [](const std::string& asked, const std::string& begun, int processes) {
    Recipe recipe = recipe_from({"train.gradient_sum=" + asked}), before = recipe;
    if (!begun.empty()) before = recipe_from({"train.gradient_sum=" + begun});
    const std::size_t notes = recipe.notes.size();
    choose_gradient_sum(recipe, begun.empty() ? nullptr : &before, processes);
    return concat(word(recipe.train.gradient_sum), recipe.notes.size() > notes ? ", noted" : "");
  };
  EXPECT_EQ(chosen("auto", "", 1), "in-turn");
  EXPECT_EQ(chosen("auto", "", 2), "tree");
  EXPECT_EQ(chosen("tree", "", 1), "tree");
  EXPECT_EQ(chosen("auto", "tree", 1), "tree");
  EXPECT_EQ(chosen("auto", "in-turn", 1), "in-turn");
  EXPECT_EQ(chosen("auto", "in-turn", 2), "tree, noted");
  EXPECT_EQ(chosen("auto", "auto", 2), "tree, noted");
}

TEST(ParallelSettings, ArePartOfTheResultOnlyByTheOrderOfSums) {
  const Recipe usual = recipe_from({});
  EXPECT_EQ(difference(usual, recipe_from({"parallel.timeout=5"})), "");
  EXPECT_EQ(difference(usual, recipe_from({"train.gradient_sum=in-turn"})), "");
  EXPECT_EQ(difference(usual, recipe_from({"train.gradient_sum=tree"})),
            "train.gradient_sum: \"auto\" -> \"tree\"");
}

TEST(ParallelSettings, DivideTheCoresAndCountTheCopiesOfGradients) {
  Recipe recipe = recipe_from({"train.micro_batch=1"});
  EXPECT_EQ(threads_of_process(recipe, 1), 0);  // all
  EXPECT_EQ(threads_of_process(recipe, 2), std::max(1, physical_cores() / 2));
  EXPECT_EQ(threads_of_process(recipe, 1000), 1);
  recipe.run.threads = 3;
  EXPECT_EQ(threads_of_process(recipe, 2), 3);
  recipe.model.vocab = 256;
  const std::int64_t once = memory_of_training(recipe).gradient_bytes;
  EXPECT_EQ(memory_of_training(recipe, 8).gradient_bytes, once);
  EXPECT_EQ(memory_of_training(recipe, 4).gradient_bytes, 2 * once);
  recipe.train.gradient_sum = GradientOrder::tree;
  EXPECT_EQ(memory_of_training(recipe).gradient_bytes, 4 * once);
}

}  // namespace
}  // namespace penstock
