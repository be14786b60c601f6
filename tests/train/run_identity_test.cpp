// What config.toml records of a run, and when another recipe is the same run.
#include "penstock/train/run_identity.h"

#include <gtest/gtest.h>

#include "penstock/io/toml.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/resolve.h"
#include "tests/base/error_of.h"
#include "tests/train/recipe_text.h"

namespace penstock {
namespace {

const std::string kRemoe = testing::replaced("topk", "remoe");

Recipe recipe(const std::vector<std::string>& overrides, const std::string& text = kRemoe) {
  return testing::recipe_from(overrides, text);
}

std::string difference_of(const std::vector<std::string>& overrides) {
  return difference(recipe({}), recipe(overrides));
}

TEST(RunIdentity, AnOptionAtItsDefaultIsTheSameRun) {
  EXPECT_EQ(difference_of({"model.router.adaptive-l1.factor=1.2"}), "");
  EXPECT_EQ(difference_of({"model.router.scorer=linear", "model.router.selector=relu"}), "");
  EXPECT_EQ(difference_of({"model.router.balancers=[\"adaptive-l1\"]"}), "");
  EXPECT_EQ(difference_of({"run.threads=3", "name=other", "data.corpus=moved"}), "");
}

TEST(RunIdentity, NamesTheKeyThatDiffersAndBothValues) {
  EXPECT_EQ(difference_of({"model.router.adaptive-l1.factor=1.3"}),
            "model.router.adaptive-l1.factor: 1.2 -> 1.3");
  EXPECT_EQ(difference_of({"train.lr=0.5", "train.min_lr=1e-4"}), "train.lr: 0.001 -> 0.5");
  EXPECT_EQ(difference_of({"train.lr=0.5"}),
            "train.lr: 0.001 -> 0.5 and 1 more key");  // min_lr changes with lr
  EXPECT_EQ(difference_of({"model.router.balancers=[]"}).find("model.router.adaptive-l1."), 0u);
  EXPECT_EQ(difference_of({"model.router.method=topk"})
                .find("model.router.method: \"remoe\" -> \"topk\" and "),
            0u);
}

TEST(RunIdentity, ConfigTomlNamesEveryPartAndOptionAndReadsBack) {
  for (const auto& method : method_registry().names()) {
    std::vector<std::string> overrides = {"model.router.method=" + method};
    if (method == "dense") overrides.push_back("model.moe.experts=0");
    const Recipe original = recipe(overrides);
    const std::string text = to_toml(written_out(original));
    const Recipe again = recipe({}, text);
    EXPECT_EQ(difference(original, again), "") << method;
    EXPECT_EQ(to_toml(written_out(again)), text) << method;
    const ConfigNode node = parse_toml(text, method);
    const ConfigNode& router = *node.find("model")->find("router");
    for (const auto& [part, options] : resolve(original.model.router).options)
      for (const auto& [key, value] : options.table()) {
        ASSERT_TRUE(router.find(part)) << method << text;
        EXPECT_TRUE(router.find(part)->find(key)) << method << " " << part << " " << key;
      }
  }
  testing::expect_says(to_toml(written_out(recipe({}))), {"scorer = \"linear\""});
}

TEST(RunIdentity, ADirectoryWrittenWithoutTheOptionsIsTheSameRun) {
  const Recipe earlier = recipe({}, to_toml(write_config(recipe({}))));
  ASSERT_EQ(to_toml(write_config(earlier)).find("factor"), std::string::npos);
  EXPECT_EQ(difference(earlier, recipe({})), "");
}

TEST(RunIdentity, AMethodThatTheNamedPartsOutvoteIsRefused) {
  const std::string text = to_toml(written_out(recipe({})));
  EXPECT_TRUE(
      testing::error_of([&] {
        recipe({"model.router.method=hash"}, text);
      }).starts_with("--set model.router.method=hash: model.router.method would change nothing"));
  EXPECT_NO_THROW(recipe({"model.router.k=2"}, text));
  EXPECT_NO_THROW(recipe({"model.router.method=topk"}));
  // Both are overrides, although one override ends as "recipe.toml:12" does.
  EXPECT_NO_THROW(
      recipe({"model.router.method=\"remoe\" # :12", "model.router.scorer=linear"}, text));
}

}  // namespace
}  // namespace penstock
