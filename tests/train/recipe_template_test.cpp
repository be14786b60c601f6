// The recipe that is printed as a template: for every method and part, it can be read and it
// trains.
#include "penstock/train/recipe_template.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <regex>

#include "penstock/base/error.h"
#include "penstock/io/toml.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/registry.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/trainer.h"
#include "tests/base/temp_directory.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

Recipe pasted(const std::string& text, const std::vector<std::string>& overrides = {}) {
  ConfigNode node = parse_toml(text, "pasted");
  apply_overrides(node, overrides);
  return read_recipe(node);
}

std::vector<std::string> all_names() {
  std::vector<std::string> out = method_registry().names();
  for (const auto& names :
       {scorer_registry().names(), selector_registry().names(), balancer_registry().names()})
    out.insert(out.end(), names.begin(), names.end());
  return out;
}

bool uses(const Recipe& recipe, const std::string& name) {
  const ResolvedRouter router = resolve(recipe.model.router);
  return recipe.model.router.method == name || router.options.contains(name) ||
         router.scorer == name || router.selector == name;
}

TEST(RouterRecipe, IsReadForEveryMethodAndPart) {
  for (const auto& name : all_names()) {
    const Recipe recipe = pasted(router_recipe(example_router(name)));
    EXPECT_TRUE(uses(recipe, name)) << name;
    EXPECT_EQ(recipe.data.corpus, "corpus");
    EXPECT_EQ(recipe.notes, std::vector<std::string>()) << name;
    EXPECT_EQ(recipe.model.moe_layers(), name == "dense" ? 0 : recipe.model.layers) << name;
  }
  EXPECT_THROW(example_router("remo"), Error);
}

TEST(RouterRecipe, FindsPartsForOneThatNoMethodHas) {
  for (const auto& names :
       {scorer_registry().names(), selector_registry().names(), balancer_registry().names()})
    for (const auto& name : names)
      EXPECT_TRUE(uses(pasted(router_recipe(example_by_parts(name))), name)) << name;
}

TEST(RouterRecipe, HasAKThatItsRouterLearnsWith) {
  EXPECT_EQ(example_router("topk").k, 1);          // the gate is a probability
  EXPECT_EQ(example_router("smoe").k, 2);          // softmax over one kept logit is 1
  EXPECT_EQ(example_router("smoe-dropout").k, 8);  // its schedule ends at all experts
  EXPECT_EQ(example_router("hash").k, 1);
}

TEST(RecipeTemplate, TakesValuesInPlaceOfItsOwn) {
  const KeyValues values = {{"model.d_model", std::int64_t{96}},
                            {"model.heads", std::int64_t{3}},
                            {"train.warmup_steps", std::int64_t{7}},
                            {"data.corpus", std::string("a/b")}};
  for (const auto& method : {"remoe", "dense"}) {
    const std::string text = recipe_template(method, values, {"What it is for."});
    const Recipe recipe = pasted(text);
    EXPECT_TRUE(text.starts_with("# What it is for.\n")) << text.substr(0, 80);
    EXPECT_EQ(recipe.model.d_model, 96);
    EXPECT_EQ(recipe.train.optimizer.warmup_steps, 7);
    EXPECT_EQ(recipe.data.corpus, "a/b");
    EXPECT_EQ(recipe.model.router.method, method);
  }
  const std::string text = short_recipe(values, {"Short."});
  EXPECT_EQ(pasted(text).model.heads, 3);
  EXPECT_EQ(text.find("layers"), std::string::npos) << text;
}

TEST(RecipeTemplate, IsReadForEveryMethodWithAndWithoutItsCommentedKeys) {
  const std::regex commented("(^|\n)#([a-z_0-9]+ = )");
  for (const auto& method : method_registry().names()) {
    const std::string text = recipe_template(method);
    const Recipe recipe = pasted(text);
    EXPECT_EQ(recipe.model.router.method, method);
    EXPECT_EQ(recipe.notes, std::vector<std::string>()) << method;
    const std::string uncommented = std::regex_replace(text, commented, "$1$2");
    ASSERT_NE(uncommented, text);
    EXPECT_EQ(difference(recipe, pasted(uncommented)), "") << method;
  }
  EXPECT_THROW(recipe_template("relu"), Error);
}

TEST(RecipeTemplate, HasEveryKeyOnce) {
  const std::string text = recipe_template("remoe");
  std::string table;
  std::multiset<std::string> keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) table = line.substr(1, line.size() - 2) + ".";
    const std::size_t begin = line.starts_with('#') ? 1 : 0, end = line.find(" = ");
    if (end != line.npos && line[begin] != ' ')
      keys.insert(table + line.substr(begin, end - begin));
    EXPECT_LE(line.size(), 100U) << line;
  }
  for (const auto& field : describe_config<Recipe>())
    if (field.path != "model.router.<part>") {
      EXPECT_EQ(keys.count(field.path), 1U) << field.path;
    }
  EXPECT_EQ(keys.count("model.router.adaptive-l1.factor"), 1U);
  EXPECT_NE(text.find("\nbeta2 = 0.999\n"), std::string::npos);
  EXPECT_NE(text.find("docs/train.md says where the defaults come from"), std::string::npos);
}

TEST(RecipeTemplate, Trains) {
  testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  const std::vector<std::string> small = {
      "data.corpus=" + corpus.path(), "model.d_model=32",        "model.layers=2", "model.heads=4",
      "train.batch_sequences=2",      "train.sequence_length=16"};
  for (const char* name : {"dense", "remoe", "hyperrouter", "expert-choice", "z-loss", "gshard"}) {
    const Recipe recipe = pasted(router_recipe(example_router(name)), small);
    Trainer trainer(recipe, corpus);
    EXPECT_EQ(trainer.advance().failure, "") << name;
  }
  Trainer trainer(pasted(recipe_template("noisy-topk"), small), corpus);
  EXPECT_EQ(trainer.advance().failure, "");
}

}  // namespace
}  // namespace penstock
