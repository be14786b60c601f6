// The settings of a recipe that several processes require.
#include "penstock/train/layouts/parallel_settings.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/base/threads.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/run_identity.h"
#include "tests/base/error_of.h"
#include "tests/train/recipe_text.h"

namespace penstock {
namespace {

using testing::expect_says;
using testing::recipe_from;
using testing::refusal_of;

std::string refusal(const std::vector<std::string>& overrides, int processes) {
  return testing::error_or("accepted", [&] { layout_of(recipe_from(overrides), processes); });
}

TEST(ParallelSettings, RefuseSequencesThatASelectorCannotDivide) {
  const auto lory = [](const std::string& length) {
    return refusal({"model.router.method=lory", "model.router.lory.segment_length=16", length}, 1);
  };
  EXPECT_EQ(lory("train.sequence_length=64"), "accepted");
  EXPECT_EQ(lory("train.sequence_length=40"),
            "model.router.lory.segment_length = 16 must divide train.sequence_length = 40");
}

TEST(ParallelSettings, NeedAMicroBatchForEachProcess) {
  EXPECT_EQ(refusal({}, 1), "accepted");
  EXPECT_EQ(refusal({"train.micro_batch=2"}, 4), "accepted");
  EXPECT_EQ(refusal({"train.micro_batch=2"}, 3), "accepted");
  expect_says(refusal({}, 2), {"2 processes", "train.micro_batch = 8 makes 1",
                               "set train.micro_batch to 4 or less"});
  expect_says(refusal({"train.micro_batch=2"}, 5),
              {"makes 4 of them", "set train.micro_batch to 1 ("});
}

TEST(ParallelSettings, SayWhereTheNumberOfProcessesIsAnother) {
  EXPECT_EQ(refusal({"train.micro_batch=2", "parallel.data=2"}, 2), "accepted");
  expect_says(
      refusal({"train.micro_batch=2", "parallel.data=2"}, 1),
      {"data 2 x tensor 1 x pipeline 1 = 2 processes, but 1 process trains", "--processes 2"});
  expect_says(refusal({"train.micro_batch=2", "run.device=cuda"}, 2), {"run.device = 'cuda'"});
  expect_says(refusal({"train.micro_batch=2", "train.gradient_sum=in-turn"}, 2),
              {"train.gradient_sum = \"in-turn\" is for one process"});
}

TEST(ParallelSettings, DivideProcessesAlongTheAxes) {
  const auto layout = [](std::vector<std::string> overrides, int processes) {
    for (const char* more : {"train.micro_batch=1", "model.heads=4", "model.vocab=256"})
      overrides.push_back(more);
    return layout_of(recipe_from(overrides), processes);
  };
  EXPECT_EQ(layout({"parallel.tensor=2", "parallel.pipeline=2"}, 8),
            (dist::Layout{.data = 2, .tensor = 2, .pipeline = 2}));
  EXPECT_EQ(layout({"parallel.expert=2"}, 4), (dist::Layout{.data = 4, .expert = 2}));
  // Experts are divided within the data-parallel ranks, or there are data × expert processes.
  const std::vector<std::string> both = {"parallel.data=2", "parallel.expert=2"};
  EXPECT_EQ(layout(both, 2), (dist::Layout{.data = 2, .expert = 2}));
  EXPECT_EQ(layout(both, 4), (dist::Layout{.data = 4, .expert = 2}));
}

TEST(ParallelSettings, DivideTokensOrNeuronsOfExperts) {
  const auto layout = [](std::vector<std::string> overrides, int processes) {
    for (const char* more :
         {"train.micro_batch=1", "model.heads=4", "model.vocab=256", "parallel.whole_experts=true"})
      overrides.push_back(more);
    return layout_of(recipe_from(overrides), processes);
  };
  EXPECT_EQ(layout({"parallel.tensor=2", "parallel.expert=4"}, 4),
            (dist::Layout{.data = 2, .tensor = 2, .expert = 4, .whole_experts = true}));
  EXPECT_EQ(layout({"parallel.tensor=2"}, 4),
            (dist::Layout{.data = 2, .tensor = 2, .whole_experts = true}));
  EXPECT_EQ(layout({"parallel.expert=2"}, 2), (dist::Layout{.data = 2, .expert = 2}));
  const auto refused = [&](const std::vector<std::string>& overrides,
                           int processes) -> std::string {
    return testing::error_or("accepted", [&] { layout(overrides, processes); });
  };
  expect_says(refused({"parallel.tensor=2", "parallel.expert=3"}, 6),
              {"parallel.expert = 3 with parallel.whole_experts = true", "6 ranks of data x tensor",
               "a multiple of parallel.tensor = 2", "the nearest value that does is 2"});
  expect_says(refused({"parallel.tensor=2", "parallel.expert=8"}, 4),
              {"has to divide the 4 ranks", "the nearest value that does is 4"});
  expect_says(
      refused({"parallel.tensor=2", "train.batch_sequences=3"}, 4),
      {"parallel.whole_experts = true: ranks that share experts", "3 are not a multiple of 2"});
  expect_says(refused({"parallel.tensor=2", "train.batch_sequences=3", "parallel.expert=2"}, 4),
              {"parallel.expert = 2: ranks that share experts"});
  const auto count = [](const std::vector<std::string>& overrides) {
    return processes_of(recipe_from(overrides));
  };
  EXPECT_EQ(count({"parallel.tensor=2", "parallel.expert=2", "parallel.whole_experts=true"}), 2);
  EXPECT_EQ(count({"parallel.tensor=2", "parallel.expert=2"}), 4);
}

TEST(ParallelSettings, RefuseWhatDoesNotDivideWithWhatDoes) {
  expect_says(
      refusal({"train.micro_batch=1", "parallel.tensor=2"}, 3),
      {"3 processes cannot be divided by parallel.tensor x parallel.pipeline = 2", "start 2"});
  expect_says(refusal({"train.micro_batch=1", "parallel.expert=3"}, 4),
              {"parallel.expert = 3 does not divide the 4 data-parallel ranks",
               "the nearest value that does is 2, or start 6 processes"});
  expect_says(refusal({"train.micro_batch=1", "parallel.data=2", "parallel.expert=2"}, 3),
              {"data 2 x tensor 1 x pipeline 1 = 2 processes",
               "or with experts on processes of their own 4", "but 3 processes train"});
  expect_says(refusal({"train.micro_batch=1", "train.batch_sequences=6", "parallel.expert=2"}, 4),
              {"6 are not a multiple of 4"});
  // The nearest value divides all that it must divide: 6 ranks and 4 experts, or 8 heads and 18
  // neurons.
  expect_says(refusal({"train.micro_batch=1", "train.batch_sequences=6", "parallel.expert=4"}, 6),
              {"does not divide the 6 data-parallel ranks", "the nearest value that does is 2"});
  expect_says(refusal({"train.micro_batch=1", "model.vocab=256", "model.heads=8",
                       "model.d_model=32", "model.d_ffn=18", "parallel.tensor=4"},
                      4),
              {"model.d_ffn = 18; the nearest value that does is 2"});
  expect_says(refusal_of({"parallel.context=2"}), {"parallel.context"});
  const auto chunks = [](std::vector<std::string> overrides) {
    for (const char* more : {"parallel.pipeline=2", "parallel.pipeline_chunks=2"})
      overrides.push_back(more);
    return refusal(overrides, 4);
  };
  EXPECT_EQ(chunks({"train.micro_batch=1", "model.layers=4"}), "accepted");
  expect_says(chunks({"train.micro_batch=1", "model.layers=3"}),
              {"4 pieces of 3 layers", "set parallel.pipeline_chunks to 1 or less"});
  expect_says(chunks({"train.micro_batch=4", "model.layers=4"}), {"2 are not a multiple of 4"});
}

/// The corpus decides the vocabulary, which no axis divides.
TEST(ParallelSettings, RefuseWhatDoesNotDivideBeforeTheVocabularyIsKnown) {
  const std::string unknown = "model.vocab=0";
  EXPECT_EQ(recipe_from({unknown}).model.vocab, 0);
  EXPECT_EQ(
      refusal({unknown, "train.micro_batch=1", "parallel.tensor=3"}, 3),
      "parallel.tensor = 3 does not divide model.heads = 4; the nearest value that does is 2");
  EXPECT_EQ(
      refusal({unknown, "train.micro_batch=1", "train.batch_sequences=9", "parallel.expert=3"}, 3),
      "parallel.expert = 3 does not divide model.moe.experts = 4; the nearest value that does "
      "is 2");
  EXPECT_EQ(refusal({unknown, "train.micro_batch=1", "parallel.pipeline=3"}, 3),
            "parallel.pipeline = 3 stages for 2 layers; each needs one: set it to 2 or less");
  EXPECT_EQ(refusal({unknown, "train.micro_batch=1", "parallel.tensor=2"}, 2), "accepted");
}

TEST(ParallelSettings, DivideRowsBetweenProcessesOfTensor) {
  const auto with = [](std::vector<std::string> overrides, int processes) {
    for (const char* more :
         {"parallel.sequence=true", "train.micro_batch=1", "model.vocab=256", "model.d_ffn=96"})
      overrides.push_back(more);
    return refusal(overrides, processes);
  };
  EXPECT_EQ(with({"parallel.tensor=2"}, 2), "accepted");
  EXPECT_TRUE(layout_of(recipe_from({"parallel.sequence=true", "parallel.tensor=2"}), 2).sequence);
  for (const int processes : {1, 2})
    expect_says(with({}, processes), {"parallel.sequence = true divides rows", "that is 1",
                                      "set parallel.tensor to 2 or more"});
  expect_says(with({"parallel.tensor=4", "train.sequence_length=30"}, 4),
              {"train.micro_batch x train.sequence_length = 30 rows",
               "not a multiple of parallel.tensor = 4", "or parallel.sequence to false"});
  EXPECT_EQ(with({"parallel.tensor=4", "train.sequence_length=28"}, 4), "accepted");
}

TEST(ParallelSettings, RefuseLoadsOfAWholeStepWhereNoPassCanCountThem) {
  const auto with = [](const std::string& key) {
    return refusal({"train.micro_batch=2", "model.router.load-balance.scope=global", key}, 2);
  };
  EXPECT_EQ(with("parallel.zero=2"), "accepted");
  expect_says(with("parallel.zero=3"), {"model.router.load-balance.scope = \"global\"",
                                        "parallel.zero = 3 has no order; set that to 2"});
  expect_says(with("parallel.pipeline=2"), {"parallel.pipeline = 2 has no order; set that to 1"});
}

TEST(ParallelSettings, RefuseAPassWithAllExpertsWhereNoneHasAnOrder) {
  const auto with = [](const std::string& key) {
    return refusal({"train.micro_batch=2", "model.router.topk.distil=0.5", key}, 2);
  };
  EXPECT_EQ(with("parallel.zero=2"), "accepted");
  EXPECT_EQ(with("parallel.tensor=2"), "accepted");
  expect_says(with("parallel.zero=3"), {"selector 'topk' learns from a pass with all experts",
                                        "parallel.zero = 3 has no order; set that to 2"});
  expect_says(with("parallel.pipeline=2"), {"parallel.pipeline = 2 has no order; set that to 1"});
}

TEST(ParallelSettings, RefuseAStartFromEveryRouterWhereStagesHaveTheirOwn) {
  const auto with = [](const std::string& start, const std::string& key) {
    return refusal({"model.router.method=remoe", "model.router.balancers=[\"threshold\"]",
                    "model.router.threshold.start=" + start, "train.micro_batch=2", key},
                   2);
  };
  EXPECT_EQ(with("target", "parallel.zero=2"), "accepted");
  EXPECT_EQ(with("dense", "parallel.pipeline=2"), "accepted");
  expect_says(with("target", "parallel.pipeline=2"), {"parallel.pipeline = 2", "\"dense\""});
}

TEST(ParallelSettings, RefuseWithLocalStepsWhatSharesAStepOrComesBetweenOuterSteps) {
  const auto local = [](std::vector<std::string> overrides, int processes) {
    for (const char* more : {"parallel.local_steps=10", "train.micro_batch=1", "model.vocab=256"})
      overrides.push_back(more);
    return refusal(overrides, processes);
  };
  const std::vector<std::string> fits = {"train.steps=100", "train.eval_every=20",
                                         "train.checkpoint_every=50"};
  EXPECT_EQ(local(fits, 1), "accepted");
  EXPECT_EQ(local(fits, 4), "accepted");
  for (const std::string axis : {"tensor", "pipeline", "expert"})
    expect_says(local({concat("parallel.", axis, "=2")}, 2),
                {concat("parallel.local_steps = 10 with parallel.", axis, " = 2"), "a whole model",
                 concat("set parallel.", axis, " to 1, or parallel.local_steps to 1")});
  expect_says(local({"parallel.zero=1"}, 2),
              {"with parallel.zero = 1", "moments of their own", "set parallel.zero to 0"});
  for (const int processes : {1, 2}) {
    expect_says(local({"train.steps=105"}, processes),
                {"train.steps = 105 is not a multiple of parallel.local_steps = 10",
                 "set it to 100 or 110"});
    expect_says(local({"train.eval_every=5"}, processes),
                {"train.eval_every = 5 is not a multiple", "set it to 10"});
    expect_says(local({"train.checkpoint_every=15"}, processes),
                {"train.checkpoint_every = 15 is not", "set it to 10 or 20"});
  }
}

TEST(ParallelSettings, CountTheProcessesThatTheyAreMeantFor) {
  const auto count = [](const std::vector<std::string>& overrides) {
    return processes_of(recipe_from(overrides));
  };
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({"parallel.data=4", "parallel.expert=2"}), 4);
  EXPECT_EQ(count({"parallel.expert=2"}), 2);
  EXPECT_EQ(count({"parallel.tensor=2", "parallel.pipeline=3", "parallel.data=2"}), 12);
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

TEST(ParallelSettings, ArePartOfTheResultOnlyByTheOrderOfSumsAndLocalSteps) {
  const Recipe usual = recipe_from({});
  EXPECT_EQ(difference(usual, recipe_from({"parallel.timeout=5"})), "");
  EXPECT_EQ(difference(usual, recipe_from({"parallel.tensor=2", "parallel.sequence=true"})), "");
  EXPECT_EQ(difference(usual, recipe_from({"train.gradient_sum=in-turn"})), "");
  EXPECT_EQ(difference(usual, recipe_from({"parallel.outer_lr=0.5"})), "");
  const Recipe local = recipe_from({"parallel.local_steps=10"});
  EXPECT_EQ(difference(usual, local), "parallel.local_steps: 1 -> 10");
  EXPECT_EQ(difference(local, recipe_from({"parallel.local_steps=10", "parallel.data=4"})), "");
  EXPECT_EQ(difference(local, recipe_from({"parallel.local_steps=10", "parallel.outer_lr=0.5"})),
            "parallel.outer_lr: 0.7 -> 0.5");
  EXPECT_EQ(difference(usual, recipe_from({"train.gradient_sum=tree"})),
            "train.gradient_sum: \"auto\" -> \"tree\"");
}

TEST(ParallelSettings, DivideTheCoresAndCountTheCopiesOfGradients) {
  Recipe recipe = recipe_from({"train.micro_batch=1"});
  EXPECT_EQ(threads_of_process(recipe, 1), 0);  // 0: all threads
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
