// The choice of the layers that are computed again to meet a memory budget.
#include "penstock/train/recompute_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/train/read_recipe.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

Recipe six_layers(const std::string& method) {
  ConfigNode node = testing::small_recipe_node(method, 8, 64, "unused");
  node.set("model.layers", 6);
  node.set("model.vocab", 256);
  return read_recipe(node);
}

RecomputeChoice choose(Recipe recipe, double budget, const RankShare& rank = {}) {
  recipe.train.memory_budget = budget == 0 ? "" : concat(std::llround(std::floor(budget)));
  const TrainingPass pass{.micro_batch = recipe.train.micro_batch,
                          .sequence_length = recipe.train.sequence_length};
  return choose_recomputation(recipe, ActivationCount(recipe.model, pass), rank);
}

TEST(RecomputeChoice, WithoutABudgetIsWhatTheRecipeSays) {
  Recipe recipe = six_layers("topk");
  EXPECT_TRUE(choose(recipe, 0).layers.empty());
  recipe.train.recompute_experts = true;
  EXPECT_EQ(choose(recipe, 0).layers, Recomputation(6, Recomputed::experts));
  EXPECT_EQ(choose(recipe, 1e15).layers, Recomputation(6, Recomputed::experts));
}

TEST(RecomputeChoice, OfManyLayersSomeAreTakenAtATime) {
  Recipe recipe = six_layers("topk");
  recipe.model.layers = 301;  // layers are taken three at a time
  const RecomputeChoice all = choose(recipe, 1e15);
  const double least = choose(recipe, 1).least_bytes;
  const RecomputeChoice smallest = choose(recipe, least);
  EXPECT_TRUE(smallest.fits);
  EXPECT_GE(std::ranges::count_if(smallest.layers, recomputes_layer), 298);
  const RecomputeChoice half = choose(recipe, (all.activation_bytes + least) / 2);
  EXPECT_TRUE(half.fits);
  const auto kept = std::ranges::count(half.layers, Recomputed::nothing),
             whole = std::ranges::count_if(half.layers, recomputes_layer);
  EXPECT_GT(kept, 0);
  EXPECT_EQ((301 - kept) % 3, 0);
  EXPECT_EQ(whole % 3, 0);
  EXPECT_LT(half.again, smallest.again);
}

TEST(RecomputeChoice, LessMemoryTakesMoreFlops) {
  for (const char* method : {"dense", "topk", "remoe", "lory"}) {
    SCOPED_TRACE(method);
    const Recipe recipe = six_layers(method);
    const RecomputeChoice all = choose(recipe, 1e15);
    const double least = choose(recipe, 1).least_bytes;
    EXPECT_EQ(all.again, 0);
    ASSERT_LT(least, all.activation_bytes);
    double again = -1;
    int different = 0;
    for (int i = 0; i <= 10; ++i) {
      const double budget = all.activation_bytes + (least - all.activation_bytes) * i / 10 + 1;
      const RecomputeChoice one = choose(recipe, budget);
      EXPECT_TRUE(one.fits);
      EXPECT_LE(one.activation_bytes, budget);
      EXPECT_GE(one.again, again);
      different += one.again > again;
      again = one.again;
    }
    EXPECT_GE(different, 4);
    // A forward pass is a third of training's FLOPs. Experts add two ninths more.
    EXPECT_GT(again, 0.2);
    EXPECT_LT(again, 0.6);
    EXPECT_FALSE(choose(recipe, least - 1).fits);
    EXPECT_EQ(choose(recipe, least - 1).least_bytes, least);
  }
}

TEST(RecomputeChoice, CountsWhatIsThereBesides) {
  const Recipe recipe = six_layers("dense");
  const double all = choose(recipe, 1e15).activation_bytes;
  EXPECT_EQ(choose(recipe, all + 1000, {.others = 1000}).again, 0);
  EXPECT_GT(choose(recipe, all + 1000, {.others = 1001}).again, 0);
}

TEST(RecomputeChoice, LayersOfStagesAreAlike) {
  const Recipe recipe = six_layers("topk");
  const double all = choose(recipe, 1e15).activation_bytes;
  const Recomputation layers = choose(recipe, all - 1, {.alike = true}).layers;
  ASSERT_EQ(layers.size(), 6U);
  EXPECT_EQ(layers, Recomputation(6, layers[0]));
  EXPECT_NE(layers[0], Recomputed::nothing);
}

TEST(RecomputeChoice, SaysWhichLayers) {
  using enum Recomputed;
  EXPECT_EQ(recomputation_text({}), "nothing");
  EXPECT_EQ(recomputation_text({.layers = {layer, layer, experts, nothing}, .again = 0.144}),
            "layers 0-1 whole, the experts of layer 2; 14 % more FLOPs");
  EXPECT_EQ(recomputation_text({.layers = {nothing, experts, nothing, experts}, .again = 0.05}),
            "the experts of layers 1, 3; 5 % more FLOPs");
}

TEST(RecomputeChoice, ReadsAmountsOfMemory) {
  const auto bytes = [](const char* text) { return bytes_of_text(text, "train.memory_budget"); };
  EXPECT_EQ(bytes(""), 0);
  EXPECT_EQ(bytes("700 MiB"), 700.0 * (1 << 20));
  EXPECT_EQ(bytes("1.5GiB"), 1.5 * (1 << 30));
  EXPECT_EQ(bytes("2 GB"), 2e9);
  EXPECT_EQ(bytes("12345"), 12345);
  for (const char* wrong :
       {"much", "7 gib", "-1", "0", "0 MiB", "nan", "inf", "7 MiB of it", "MiB"})
    EXPECT_THROW(bytes(wrong), Error) << wrong;
}

}  // namespace
}  // namespace penstock
