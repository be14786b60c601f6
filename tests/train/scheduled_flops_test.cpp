// The mean cost of a step under schedules of k, compared with sums of single steps by hand.
#include "penstock/train/scheduled_flops.h"

#include <gtest/gtest.h>

#include "penstock/models/counts/flops.h"

namespace penstock {
namespace {

/// A recipe with the router method `method` and its options, in a model of 8 experts.
Recipe recipe_with(const std::string& method, double k, const ConfigNode& options = {}) {
  Recipe recipe;
  recipe.model.vocab = 32;
  recipe.model.d_model = 16;
  recipe.model.layers = 2;
  recipe.model.heads = 2;
  recipe.model.kv_heads = 2;
  recipe.model.d_ffn = 24;
  if (method != "dense") recipe.model.moe.experts = 8;
  recipe.model.router.method = method;
  recipe.model.router.k = k;
  if (!options.empty()) recipe.model.router.parts["topk"] = options;
  recipe.model = recipe.model.resolved();
  recipe.train.steps = 10;
  recipe.train.batch_sequences = 2;
  recipe.train.sequence_length = 4;
  return recipe;
}

double flops_at(double k) { return nominal_training_flops(recipe_with("topk", k).model, 2, 4); }

TEST(ScheduledFlops, AreNominalWithoutASchedule) {
  for (const char* method : {"dense", "topk", "remoe", "hash", "lory", "thor"}) {
    const Recipe recipe = recipe_with(method, 1);
    EXPECT_DOUBLE_EQ(mean_flops_per_step(recipe), nominal_training_flops(recipe.model, 2, 4))
        << method;
  }
}

TEST(ScheduledFlops, AreTheMeanOverTheSteps) {
  ConfigNode steps;
  steps.set("schedule.kind", "steps");
  steps.set("schedule.values", ConfigNode::Array{ConfigNode(std::int64_t{6})});
  steps.set("schedule.at", ConfigNode::Array{ConfigNode(std::int64_t{3})});
  EXPECT_NEAR(mean_flops_per_step(recipe_with("topk", 2, steps)),
              (3 * flops_at(6) + 7 * flops_at(2)) / 10, 1e-6);
  ConfigNode linear;  // 2 + round(6·s/10): 2 3 3 4 4 5 6 6 7 7
  linear.set("schedule.kind", "linear");
  linear.set("schedule.start", 2);
  EXPECT_NEAR(mean_flops_per_step(recipe_with("topk", 8, linear)),
              (flops_at(2) + 2 * flops_at(3) + 2 * flops_at(4) + flops_at(5) + 2 * flops_at(6) +
               2 * flops_at(7)) /
                  10,
              1e-6);
}

TEST(ScheduledFlops, KnowGranularity) {
  ConfigNode steps;
  steps.set("schedule.kind", "steps");
  steps.set("schedule.values", ConfigNode::Array{ConfigNode(std::int64_t{4})});
  Recipe fine = recipe_with("topk", 1, steps), four = recipe_with("topk", 4),
         one = recipe_with("topk", 1);
  for (Recipe* recipe : {&fine, &four, &one}) recipe->model.moe.granularity = 2;
  EXPECT_NEAR(mean_flops_per_step(fine), (mean_flops_per_step(four) + mean_flops_per_step(one)) / 2,
              1e-6);
}

}  // namespace
}  // namespace penstock
