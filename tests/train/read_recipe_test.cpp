// Recipes whose values are allowed alone but not together: the error names file, line and key.
#include "penstock/train/read_recipe.h"

#include <gtest/gtest.h>

#include "penstock/io/toml.h"
#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/parameter_count.h"
#include "tests/base/error_of.h"
#include "tests/train/recipe_text.h"

namespace penstock {
namespace {

using testing::replaced;

std::string refusal(const std::vector<std::string>& overrides,
                    const std::string& text = testing::kRecipeText) {
  return testing::refusal_of(overrides, text);
}

void expect_opens(const std::string& text, const std::string& opening) {
  EXPECT_EQ(text.substr(0, opening.size()), opening) << text;
}

TEST(Recipe, EvalKIsOneThatTheRouterTakes) {
  EXPECT_EQ(refusal({"train.eval_k=4"}), "accepted");
  EXPECT_EQ(refusal({"train.eval_k=0", "model.router.method=remoe"}), "accepted");
  expect_opens(refusal({"train.eval_k=5"}),
               "--set train.eval_k=5: train.eval_k = 5 is not from 1 to 4");
  testing::expect_says(refusal({"train.eval_k=2", "model.router.method=remoe"}), {"switch on"});
  testing::expect_says(
      refusal({"train.eval_k=1", "model.router.method=dense", "model.moe.experts=0"}),
      {"the model is dense"});
}

TEST(Recipe, ABatchHasABoundOfSequencesAndOfTheirTokens) {
  for (const std::string key : {"train.batch_sequences", "train.sequence_length"})
    for (const std::string value : {"16777217", "9223372036854775807"})
      expect_opens(refusal({key + "=" + value}), "--set " + key + "=" + value + ": " + key + " = " +
                                                     value +
                                                     " is out of range; it must be 1 to 16777216");
}

TEST(Recipe, TakesAScopeOfLoadsThatTheSelectorCanCount) {
  const std::string key = "model.router.load-balance.scope=";
  EXPECT_EQ(refusal({key + "global", "train.micro_batch=4"}), "accepted");
  EXPECT_EQ(refusal({key + "sequence"}), "accepted");
  const std::string refused = refusal({key + "sequence", "model.router.method=switch"});
  testing::expect_says(refused, {"model.router.load-balance.scope = \"sequence\": selector "
                                 "'topk-capacity' counts what is requested of its experts"});
}

TEST(Recipe, NamesTheLineOfValuesThatDoNotGoTogether) {
  EXPECT_EQ(refusal({}), "accepted");
  expect_opens(refusal({}, replaced("k = 1", "k = 9")), "r.toml:9: model.router.k = 9 is above");
  expect_opens(refusal({}, replaced("k = 1", "k = 1.5")), "r.toml:9: model.router.k gives 1.5");
  expect_opens(refusal({}, replaced("heads = 4", "heads = 5")),
               "r.toml:2: model.d_model = 32 is not a multiple of model.heads = 5");
  expect_opens(refusal({}, replaced("heads = 4", "heads = 32")),
               "r.toml:2: model.d_model / model.heads = 1");
  expect_opens(refusal({}, replaced("heads = 4", "head_dim = 3")), "r.toml:4: model.head_dim = 3");
  expect_opens(refusal({}, replaced("experts = 4", "granularity = 4")),
               "r.toml:8: model.router.method = 'topk' needs model.moe.experts");
  expect_opens(refusal({}, replaced("\"topk\"", "\"tokp\"")),
               "r.toml:8: model.router.method: unknown method 'tokp'; did you mean 'topk'?");
  expect_opens(refusal({}, replaced("k = 1", "schedule = 1")), "r.toml:9: model.router.schedule");
  expect_opens(refusal({}, replaced("k = 1", "topk.schedule = {kind = \"linear\", start = 9}")),
               "r.toml:9: model.router.topk.schedule.start: k = 9 must be from 1 to 4");
}

TEST(Recipe, NamesTheOverrideThatDoesNotFitTheFile) {
  expect_opens(refusal({"train.micro_batch=3"}),
               "r.toml:12: train.batch_sequences = 8 is not a multiple of train.micro_batch = 3 "
               "(train.micro_batch: --set train.micro_batch=3)");
  const std::string kind = "model.router.topk.schedule.kind=steps";
  expect_opens(refusal({kind}), "--set " + kind + ": model.router.topk.schedule.kind = \"steps\"");
  const std::string values = "model.router.topk.schedule.values=[9]";
  expect_opens(
      refusal({kind, values}),
      "--set " + values + ": model.router.topk.schedule.values: k = 9 must be from 1 to 4");
  expect_opens(refusal({"tain.lr=1"}), "--set tain.lr=1: tain: unknown key; did you mean 'train'?");
  expect_opens(refusal({"train.min_lr=1"}), "--set train.min_lr=1: train.min_lr = 1 is above");
  expect_opens(refusal({"model.router.balancers=[\"nois\"]"}),
               "--set model.router.balancers=[\"nois\"]: model.router.balancers: unknown balancer");
}

TEST(Recipe, ThoseOfReMoEHaveThePublishedSizesAndFlops) {
  // The parameters follow from the published configurations. The FLOPs are those of ReMoE's Table
  // 1. MoE and dense models have the same FLOPs, because a token uses one expert of eight.
  struct Published {
    const char* size;
    std::int64_t dense, experts;
    double gflops, tolerance;
  };
  for (const auto& [size, dense, experts, gflops, tolerance] :
       {Published{"182m", 182471424, 777087744, 995.36, 0.01},
        Published{"469m", 469812224, 2583938048, 2873.3, 0.05},
        Published{"978m", 978396672, 5735032320, 5991.5, 0.05}}) {
    for (const char* method : {"dense", "topk", "remoe"}) {
      const std::string name = std::string(method) + "-" + size;
      const Recipe recipe = read_recipe(
          read_toml(std::string(PENSTOCK_SOURCE_DIR) + "/recipes/remoe/" + name + ".toml"));
      EXPECT_EQ(recipe.name, name);
      EXPECT_EQ(recipe.model.router.method, method);
      EXPECT_EQ(count_parameters(recipe.model).total,
                recipe.model.moe_layers() > 0 ? experts : dense)
          << name;
      EXPECT_EQ(recipe.model.moe_layers(),
                recipe.model.router.method == "dense" ? 0 : recipe.model.layers)
          << name;
      EXPECT_NEAR(published_flops_per_sequence(recipe.model, recipe.train.sequence_length) / 1e9,
                  gflops, tolerance)
          << name;
    }
  }
}

TEST(Overrides, AreNamedByTheOptionThatGaveThem) {
  const auto said = [](const std::string& text, const std::string& option) -> std::string {
    return testing::error_or("accepted", [&] {
      ConfigNode node = parse_toml(testing::kRecipeText, "r.toml");
      apply_overrides(node, std::vector<std::string>{text}, option);
      read_recipe(node);
    });
  };
  expect_opens(said("tain.lr=1", "--key"), "--key tain.lr=1: tain: unknown key");
  expect_opens(said("tain.lr=1", ""), "tain.lr=1: tain: unknown key");
  EXPECT_EQ(said("lr", "--key"),
            "--key 'lr': write it as key=value, for example --key train.steps=100");
  EXPECT_EQ(said("lr", ""), "'lr': write it as key=value, for example train.steps=100");
}

TEST(Overrides, NumbersThatDoNotFitAreSaidToBeSuch) {
  expect_opens(refusal({"train.steps=99999999999999999999"}),
               "--set train.steps=99999999999999999999: ");
  for (const char* const steps : {"99999999999999999999", "-9_223_372_036_854_775_809"})
    testing::expect_says(refusal({std::string("train.steps=") + steps}),
                         {"64 bits, from -9223372036854775808 to 9223372036854775807"});
  testing::expect_says(refusal({}, replaced("lr = 1e-3", "steps = 99999999999999999999")),
                       {"64 bits"});
  EXPECT_EQ(refusal({"train.steps=007"}).find("found a string"), std::string::npos);
  // A value that only starts like a number is a string.
  EXPECT_EQ(refusal({"name=1.2.3", "data.corpus=2024-corpus"}), "accepted");
}

}  // namespace
}  // namespace penstock
