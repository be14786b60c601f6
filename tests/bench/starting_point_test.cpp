// The chosen model size and number of steps for a given time, compared with hand-worked numbers.
#include "penstock/bench/starting_point.h"

#include <gtest/gtest.h>

#include "penstock/routers/methods.h"

namespace penstock::bench {
namespace {

TEST(StartingPoint, ChoosesALargerModelForMoreTime) {
  // d=128, 4 layers, f=512: 4·(4·128² + 3·128·512) = 1.05 M parameters of dense layers. 21 M tokens
  // at 6 · 1.05 M FLOPs a token, plus attention and head: about 160 TFLOP.
  StartingRequirements requirements{.method = "topk", .seconds = 100};
  EXPECT_EQ(size_for(requirements, 1e9).name, "tiny");   // 0.1 TFLOP: too little for any size
  EXPECT_EQ(size_for(requirements, 2e12).name, "tiny");  // 200 TFLOP
  // 4000 TFLOP: a run of "small" takes 16 times the FLOPs of a run of "tiny".
  EXPECT_EQ(size_for(requirements, 4e13).name, "small");
  requirements.seconds *= 1e6;
  EXPECT_EQ(size_for(requirements, 4e13).name, "larger");
  requirements.runs = 1000000;
  EXPECT_EQ(size_for(requirements, 4e13).name, "small");
}

TEST(StartingPoint, StepsFillTheTimeAndReadACorpusFourTimesAtMost) {
  StartingRequirements requirements{.method = "remoe", .seconds = 1000, .runs = 2};
  const Recipe recipe = recipe_of_size(model_sizes().front(), requirements);
  EXPECT_EQ(steps_for(requirements, recipe, 0.5), 1000);
  requirements.corpus_tokens = 2048 * 10;
  EXPECT_EQ(steps_for(requirements, recipe, 0.5), 40);
  EXPECT_EQ(steps_for(requirements, recipe, 1e9), 10);
}

TEST(StartingPoint, HasARecipeForEveryMethod) {
  for (const auto& method : method_registry().names())
    for (const ModelSize& size : model_sizes()) {
      const Recipe recipe = recipe_of_size(size, {.method = method, .vocab = 300});
      EXPECT_EQ(recipe.model.vocab, 300);
      EXPECT_EQ(recipe.model.moe_layers(), method == "dense" ? 0 : size.layers) << method;
    }
}

}  // namespace
}  // namespace penstock::bench
