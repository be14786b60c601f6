// train.recompute_experts and train.memory_budget change the memory of training and nothing else.
// Losses and weights after some steps have the same bits for every method, stochastic parts and
// balancers included.
#include <gtest/gtest.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/routers/methods.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/ops/allocated_bytes.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

class Recompute : public ::testing::Test {
 protected:
  void SetUp() override { ops::set_threads(2); }
  void TearDown() override { ops::emulate_bf16(false); }

  /// Trains both recipes and compares all that they log and save.
  void expect_same_bits(const Recipe& kept, const Recipe& again, const std::string& what) {
    SCOPED_TRACE(what);
    Trainer a(kept, corpus_), b(again, corpus_);
    for (int i = 0; i < 4; ++i) {
      const StepOutcome first = a.advance(), second = b.advance();
      ASSERT_EQ(first.failure, "");
      EXPECT_EQ(first.report.total_loss, second.report.total_loss);
      EXPECT_EQ(first.report.sparsity, second.report.sparsity);
      EXPECT_EQ(first.report.load, second.report.load);
      EXPECT_EQ(first.report.auxiliary_losses, second.report.auxiliary_losses);
    }
    const auto expected = a.model_tensors();
    for (const auto& [name, tensor] : b.model_tensors())
      EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
  }

  testing::TempDirectory directory_;
  Corpus corpus_ = testing::small_corpus(directory_.path());
};

/// The recipe with the smallest memory budget that is possible, so that layers are computed again.
Recipe least(Recipe recipe, const Corpus& corpus) {
  const Recipe counted = with_vocabulary(recipe, corpus);
  Recipe asked = counted;
  asked.train.memory_budget = "1";
  const RecomputeChoice choice = count_training(asked).recomputation;
  recipe.train.memory_budget = concat(std::llround(std::ceil(choice.least_bytes)));
  asked.train.memory_budget = recipe.train.memory_budget;
  // The backward pass begins with the last layer. To compute this layer again would save nothing.
  EXPECT_TRUE(recomputes_layer(recomputation_of(asked).front()));
  return recipe;
}

TEST_F(Recompute, ExpertsOfEveryMethodTrainToTheSameBits) {
  int routed = 0;
  for (const std::string& method : method_registry().names()) {
    if (method == "dense" || method == "lory") continue;  // these have no plan of assignments
    ++routed;
    const Recipe kept = testing::small_recipe(method, 8, 32);
    Recipe again = kept;
    again.train.recompute_experts = true;
    expect_same_bits(kept, again, method);
  }
  EXPECT_GE(routed, 4);
}

TEST_F(Recompute, LayersOfEveryMethodTrainToTheSameBits) {
  for (const std::string& method : method_registry().names()) {
    Recipe kept = testing::small_recipe(method, 8, 32);
    if (method == "lory") kept.model.router.parts["lory"].set("segment_length", 16);
    kept.train.micro_batch = 4;
    expect_same_bits(kept, least(kept, corpus_), method);
  }
}

TEST_F(Recompute, LayersInBf16TrainToTheSameBits) {
  for (const char* method : {"dense", "remoe", "topk"}) {
    Recipe kept = testing::small_recipe(method, 8, 32);
    kept.train.precision = ops::ProductPrecision::bf16;
    kept.run.emulate_bf16 = !ops::processor_has_bf16();
    expect_same_bits(kept, least(kept, corpus_), method);
  }
}

TEST_F(Recompute, TransformerXlDrawsTheSameDropoutAgain) {
  ConfigNode node = testing::small_recipe_node("hyperrouter", 8, 32, "unused");
  node.set("model.architecture", "transformer-xl");
  node.set("model.transformer_xl.dropout", 0.2);
  node.set("model.transformer_xl.memory", 16);
  // All layers share one trained network. Its gradients come from each layer.
  node.set("model.router.hypernetwork.share", true);
  node.set("model.router.hypernetwork.train_network", true);
  node.set("model.router.hypernetwork.dropout", 0.2);
  const Recipe kept = read_recipe(node);
  expect_same_bits(kept, least(kept, corpus_), "transformer-xl");
}

TEST_F(Recompute, SomeLayersTakeLessMemoryAndAllTheLeast) {
  ConfigNode node = testing::small_recipe_node("remoe", 8, 128, "unused");
  node.set("model.layers", 6);
  node.set("model.moe.experts", 16);
  const Recipe kept = with_vocabulary(read_recipe(node), corpus_);
  const auto peak = [&](const std::string& budget) {
    Recipe recipe = kept;
    recipe.train.memory_budget = budget;
    Trainer trainer(recipe, corpus_);
    const testing::AllocatedBytes allocated;
    trainer.advance();
    return static_cast<double>(allocated.peak());
  };
  Recipe asked = kept;
  asked.train.memory_budget = "1";
  const double all = static_cast<double>(memory_of_training(kept).total()),
               few = count_training(asked).recomputation.least_bytes;
  const double of_all = peak(""), of_some = peak(concat(std::llround((all + few) / 2))),
               of_least = peak(concat(std::llround(std::ceil(few))));
  EXPECT_LT(of_some, 0.85 * of_all);
  EXPECT_LT(of_least, 0.85 * of_some);
}

TEST_F(Recompute, ABudgetThatCannotBeMetIsRefused) {
  Recipe recipe = testing::small_recipe("topk", 8, 32);
  recipe.train.memory_budget = "10 KiB";
  const std::string said = testing::error_of([&] { Trainer trainer(recipe, corpus_); });
  testing::expect_says(said, {"train.memory_budget = \"10 KiB\"", "give at least \""});
  recipe.train.memory_budget = said.substr(said.find("give at least \"") + 15);
  recipe.train.memory_budget.resize(recipe.train.memory_budget.find('"'));
  EXPECT_NO_THROW(Trainer(recipe, corpus_));
}

}  // namespace
}  // namespace penstock
