// Training that needs more memory than there is: it is refused with both figures and a remedy that
// fits.
#include "penstock/train/memory_check.h"

#include <gtest/gtest.h>

#include "penstock/base/number_text.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/train/layouts/rank_estimate.h"
#include "tests/base/error_of.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

constexpr double kGibibyte = 1 << 30;

Recipe recipe_of(const std::string& method, std::int64_t batch, std::int64_t length) {
  Recipe recipe = testing::small_recipe(method, batch, length);
  recipe.model.vocab = 256;
  return recipe;
}

std::string refusal(const Recipe& recipe, double available, const RunProcesses& processes = {}) {
  return testing::error_or("", [&] { check_training_memory(recipe, available, processes); });
}

std::int64_t needed(const Recipe& recipe) {
  return training_memory(recipe.model, recipe.train.micro_batch, recipe.train.sequence_length,
                         recipe.train.recompute_experts)
      .total();
}

TEST(TrainingMemoryCheck, RefusesWhatTheEstimateSaysIsTooMuch) {
  const Recipe recipe = recipe_of("dense", 4, 64);
  const auto bytes = static_cast<double>(needed(recipe));
  EXPECT_EQ(refusal(recipe, bytes), "");
  EXPECT_NE(refusal(recipe, bytes - 1), "");
}

TEST(TrainingMemoryCheck, SaysBothFiguresTheKeysAndAMicroBatchThatFits) {
  Recipe recipe = recipe_of("dense", 8, 100000), fitting = recipe;
  fitting.train.micro_batch = 2;
  const auto available = static_cast<double>(needed(fitting));
  const std::string said = refusal(recipe, available);
  EXPECT_TRUE(said.starts_with("train.sequence_length = 100000, train.micro_batch = 8: ")) << said;
  for (const std::string& part :
       {memory_text(training_memory(recipe.model, 8, 100000)), size_text(available) + " free",
        std::string("lower train.micro_batch to 2"), std::string("options.force")})
    EXPECT_NE(said.find(part), std::string::npos) << part << " is not in " << said;
}

TEST(TrainingMemoryCheck, LowersTheLengthWhereOneSequenceIsTooMuch) {
  const Recipe recipe = recipe_of("dense", 8, 100000);
  Recipe fitting = recipe;
  fitting.train.micro_batch = 1;
  fitting.train.sequence_length = 12500;
  const std::string said = refusal(recipe, static_cast<double>(needed(fitting)));
  testing::expect_says(said, {"lower train.sequence_length to 12500 and train.micro_batch to 1"});
}

TEST(TrainingMemoryCheck, RecomputesExpertsFirst) {
  Recipe recipe = recipe_of("remoe", 2, 4096), fitting = recipe;
  fitting.train.recompute_experts = true;
  const std::string said = refusal(recipe, static_cast<double>(needed(fitting)));
  testing::expect_says(said, {"set train.recompute_experts = true"});
}

TEST(TrainingMemoryCheck, NamesTheModelWhereItsStateIsTooLarge) {
  const Recipe recipe = recipe_of("dense", 1, 16);
  const std::string said = refusal(recipe, 1000);
  EXPECT_TRUE(said.starts_with("model.d_model = 32, model.layers = 2: ")) << said;
  testing::expect_says(said, {"make the model smaller"});
}

TEST(TrainingMemoryCheck, NamesTheLargestPartOfTheModel) {
  Recipe words = recipe_of("dense", 1, 16), experts = recipe_of("topk", 1, 16),
         network = recipe_of("hyperrouter", 1, 16);
  words.model.vocab = 100000;
  EXPECT_TRUE(refusal(words, 1000).starts_with("model.vocab = 100000: "));
  experts.model.moe.experts = 500;
  EXPECT_TRUE(refusal(experts, 1000).starts_with("model.moe.experts = 500, model.d_ffn = "));
  network.model.router.parts["hypernetwork"] = ConfigNode(ConfigNode::Table{});
  network.model.router.parts["hypernetwork"].set("hidden", 60000);
  EXPECT_TRUE(refusal(network, 1000).starts_with("model.router.hypernetwork: "))
      << refusal(network, 1000);
}

/// HyperRouter's network takes memory for weights, but has no gradient and no moments. This holds
/// on one process and on two.
TEST(TrainingMemoryCheck, FrozenParametersAreWeightsAlone) {
  const auto with = [](std::int64_t hidden) {
    Recipe out = recipe_of("hyperrouter", 4, 16);
    out.train.micro_batch = 1;
    out.model.router.parts["hypernetwork"] = ConfigNode(ConfigNode::Table{});
    out.model.router.parts["hypernetwork"].set("hidden", hidden);
    return out;
  };
  const std::int64_t more =
      count_parameters(with(512).model).frozen - count_parameters(with(256).model).frozen;
  EXPECT_GT(more, 10000);
  for (const int processes : {1, 2}) {
    const TrainingMemory small = memory_of_training(with(256), processes),
                         large = memory_of_training(with(512), processes);
    EXPECT_EQ(large.parameter_bytes - small.parameter_bytes, 4 * more) << processes;
    EXPECT_EQ(large.gradient_bytes, small.gradient_bytes) << processes;
    EXPECT_EQ(large.optimizer_bytes, small.optimizer_bytes) << processes;
  }
  EXPECT_EQ(checkpoint_bytes(with(512)) - checkpoint_bytes(with(256)), 4 * more);
}

TEST(TrainingMemoryCheck, RankZeroNeedsMoreToEvaluateWhatIsDivided) {
  Recipe recipe = recipe_of("topk", 4, 16);
  recipe.train.micro_batch = 1;
  const RunProcesses other{.all = 2, .here = 2, .first = false}, first{.all = 2, .here = 2};
  recipe.parallel.zero = 1;  // all ranks write equal shares, and each rank holds all weights
  EXPECT_EQ(bytes_of_process(recipe, first), bytes_of_process(recipe, other));
  recipe.parallel.zero = 0;
  recipe.parallel.tensor = 2;
  const double weights = static_cast<double>(checkpoint_bytes(recipe)) / 3;
  const double shared = bytes_of_process(recipe, other);
  EXPECT_NEAR(bytes_of_process(recipe, first), shared + 2 * weights / 2, 1);
  EXPECT_GT(shared, static_cast<double>(memory_of_training(recipe, 2).total()));
  EXPECT_NO_THROW(check_training_memory(recipe, shared, other));
  testing::expect_error(
      [&] { check_training_memory(recipe, shared, first); },
      {" more to exchange, to save and to evaluate and this machine has ", " free for each; "});
}

/// The model has 256 · 32 parameters of the embedding and as many of the head, a norm of 32, and in
/// each of two layers 4 · 32² of attention, 3 · 32 · 48 of the feed-forward network and two norms.
/// The fuller of two ranks updates embedding and head, and of each layer the feed-forward network
/// and a norm. It holds 8 bytes of moments for each parameter that it updates.
TEST(TrainingMemoryCheck, CountsOneCopyOfTheWeightsOnOneMachine) {
  constexpr std::int64_t kParameters = 2 * 256 * 32 + 32 + 2 * (4 * 32 * 32 + 3 * 32 * 48 + 64);
  constexpr std::int64_t kUpdated = 2 * 256 * 32 + 2 * (3 * 32 * 48 + 32);
  Recipe recipe = recipe_of("dense", 4, 16);
  recipe.train.micro_batch = 1;
  const RunProcesses together{.all = 2, .here = 2, .first = false},
      apart{.all = 2, .here = 1, .first = false};
  for (const std::int64_t zero : {1, 2, 3}) {
    recipe.parallel.zero = zero;
    const TrainingMemory alone = memory_of_process(recipe, apart),
                         shared = memory_of_process(recipe, together);
    EXPECT_EQ(shared.parameter_bytes, 4 * kUpdated) << zero;
    EXPECT_EQ(shared.optimizer_bytes, 8 * kUpdated) << zero;
    // With zero = 3 a rank holds two layers whole, and this model has no more.
    EXPECT_GE(alone.parameter_bytes, 4 * kParameters) << zero;
    EXPECT_EQ(shared.gradient_bytes, alone.gradient_bytes) << zero;
    EXPECT_EQ(shared.optimizer_bytes, alone.optimizer_bytes) << zero;
    EXPECT_EQ(shared.activation_bytes, alone.activation_bytes) << zero;
    const RankEstimate rank =
        estimate_rank(recipe, {.data = 2}, {.node_ranks = 2, .shared_memory = true});
    const auto bytes =
        static_cast<double>(4 * kUpdated + shared.gradient_bytes + 8 * kUpdated +
                            shared.activation_bytes + rank.exchange_bytes + rank.checkpoint_bytes);
    EXPECT_EQ(bytes_of_process(recipe, together), bytes) << zero;
    // The process's whole weights, its spans of the weights and their moments.
    const auto first = static_cast<double>(4 * (kParameters + kUpdated) + 8 * kUpdated);
    EXPECT_EQ(bytes_to_divide(recipe, together), first);
    EXPECT_EQ(bytes_to_divide(recipe, apart), zero == 3 ? first : 0);
    EXPECT_NO_THROW(check_training_memory(recipe, bytes, together)) << zero;
    testing::expect_says(refusal(recipe, bytes - 1, together), {"share one copy of the weights"});
    EXPECT_EQ(refusal(recipe, 1000, apart).find("share one copy"), std::string::npos);
  }
}

/// A share of weights, gradients and moments of eight is less than the whole weights that a process
/// makes first.
TEST(TrainingMemoryCheck, CountsTheWholeWeightsThatAProcessMakesFirst) {
  Recipe recipe = recipe_of("dense", 8, 2);
  recipe.model.d_model = 256;
  recipe.model.d_ffn = 512;
  recipe.model.layers = 32;
  recipe.train.micro_batch = 1;
  recipe.parallel.zero = 2;
  const RunProcesses eight{.all = 8, .here = 8, .first = false};
  const double before = bytes_to_divide(recipe, eight);
  EXPECT_GT(before, bytes_of_process(recipe, eight));
  EXPECT_EQ(refusal(recipe, before, eight), "");
  const std::string said = refusal(recipe, before - 1, eight);
  testing::expect_says(said, {"to make its whole weights and to divide them"});
}

TEST(TrainingMemoryCheck, ACopyForCheckpointsIsCountedWhereAnyIsSavedBeforeTheEnd) {
  Recipe recipe = recipe_of("remoe", 2, 16);
  EXPECT_EQ(checkpoint_copy_bytes(recipe), 0);
  recipe.train.checkpoint_every = recipe.train.steps;
  EXPECT_EQ(checkpoint_copy_bytes(recipe), 0);
  recipe.train.checkpoint_every = recipe.train.steps - 1;
  const TrainingMemory memory = training_memory(recipe.model, 2, 16);
  const std::int64_t all = memory.parameter_bytes + memory.optimizer_bytes;
  EXPECT_EQ(checkpoint_copy_bytes(recipe), all);
  recipe.run.background_checkpoints = false;
  EXPECT_EQ(checkpoint_copy_bytes(recipe), 0);
  recipe.run.background_checkpoints = true;
  recipe.train.checkpoint_every = 0;
  recipe.train.eval_every = 5;
  EXPECT_EQ(checkpoint_copy_bytes(recipe), all);
  recipe.train.keep_best = false;
  EXPECT_EQ(checkpoint_copy_bytes(recipe), 0);
}

TEST(TrainingMemoryCheck, SaysWhyTrainingWaitsForCheckpoints) {
  EXPECT_EQ(why_training_waits(1000, 1000), "");
  EXPECT_EQ(why_training_waits(0, -1), "");
  EXPECT_EQ(why_training_waits(std::int64_t{3} << 20, 2 << 20),
            "training waits while checkpoints are written: a copy to write them from takes 3 MiB "
            "and training leaves 2 MiB");
  testing::expect_says(why_training_waits(1, -1), {"leaves 0 KiB"});
}

TEST(TrainingMemoryCheck, SizesHaveAUnit) {
  TrainingMemory memory;
  memory.parameter_bytes = memory.gradient_bytes = 1 << 30;
  memory.optimizer_bytes = std::int64_t{2} << 30;
  memory.activation_bytes = std::int64_t{5} << 29;
  EXPECT_EQ(memory_text(memory),
            "6.5 GiB (weights 1.0, gradients 1.0, AdamW 2.0, activations about 2.5)");
}

}  // namespace
}  // namespace penstock
