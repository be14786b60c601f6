// Resolving a recipe's router table into parts and options, and the errors of wrong tables.
#include "penstock/routers/resolve.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/routers/router.h"
#include "tests/base/error_of.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::node;
using testing::option;
using Names = std::vector<std::string>;

std::string error_of(const RouterConfig& config) {
  return testing::error_or("no error", [&] { resolve(config); });
}

TEST(Resolve, AMethodNamesItsParts) {
  const ResolvedRouter remoe = resolve({.method = "remoe"});
  EXPECT_EQ(remoe.scorer, "linear");
  EXPECT_EQ(remoe.selector, "relu");
  EXPECT_EQ(remoe.balancers, (Names{"adaptive-l1"}));
  EXPECT_EQ(option<double>(remoe, "adaptive-l1", "initial"), 1e-8);
  EXPECT_EQ(option<double>(remoe, "adaptive-l1", "factor"), 1.2);
  EXPECT_TRUE(option<bool>(remoe, "adaptive-l1", "load_balanced"));
  EXPECT_TRUE(remoe.traits.variable_active);
  EXPECT_TRUE(remoe.traits.foldable);
}

TEST(Resolve, TheSizesOfPartsHaveLimits) {
  for (const auto& [method, part, key] :
       {std::array{"xmoe", "cosine", "dimension"}, std::array{"mlp", "mlp", "hidden"},
        std::array{"hyperrouter", "hypernetwork", "embedding"},
        std::array{"router-upcycling", "mixture", "keys"},
        std::array{"lory", "lory", "segment_length"}}) {
    RouterConfig config{.method = method};
    config.parts[part] = node({{key, std::int64_t{1} << 62}});
    EXPECT_NE(error_of(config).find(concat("model.router.", part, ".", key, " = ")),
              std::string::npos)
        << error_of(config);
  }
}

std::string refusal(const RouterConfig& config, const RouterShape& shape,
                    const std::function<void(const ResolvedRouter&, const RouterShape&)>& judge) {
  const ResolvedRouter router = resolve(config);
  return testing::error_or("accepted", [&] { judge(router, shape); });
}

// check_options refuses options that do not fit the layers without building a part. Its message is
// the one that building would give.
TEST(CheckOptions, SaysWhatBuildingWouldSay) {
  const RouterShape shape{.d_model = 8, .experts = 4, .k = 2};
  const auto with = [](const std::string& method, const std::string& part, ConfigNode options) {
    RouterConfig out{.method = method};
    out.parts[part] = std::move(options);
    return out;
  };
  const std::vector<std::pair<RouterConfig, std::string>> cases = {
      {{.method = "topk"}, "accepted"},
      {with("topk", "topk", node({{"schedule.kind", std::string("steps")}})), "schedule.kind"},
      {with("remoe", "relu", node({{"most", std::int64_t{5}}})), "relu.most = 5"},
      {with("remoe", "relu", node({{"most", std::int64_t{1}}})), "relu.most = 1 keeps"},
      {with("remoe", "adaptive-l1", node({{"floor", 1.0}, {"ceiling", 0.5}})), "ceiling = 0.5"},
      {with("router-upcycling", "mixture", node({{"keys", std::int64_t{3}}})), "keys = 3"},
      {with("router-upcycling", "mixture",
            node({{"pool", std::string("max")}, {"parameterisation", std::string("collapsed")}})),
       "is no one matrix"},
      {with("hyperrouter", "hypernetwork",
            node({{"form", std::string("linear")}, {"dropout", 0.1}})),
       "hypernetwork.dropout"},
      {with("vanilla", "load-balance", node({{"scope", std::string("device")}})),
       "load-balance.devices"}};
  for (const auto& [config, words] : cases) {
    const std::string said = refusal(config, shape, check_options);
    testing::expect_says(said, {words});
    EXPECT_EQ(said, refusal(config, shape, [](const auto& router, const auto& of) {
                Router(router, of, make_balancers(router, of));
              }));
  }
  for (const char* const selector : {"topk", "topk-capacity", "sparsemixer-v2", "gshard"}) {
    const RouterConfig config{.method = "topk", .scorer = "linear", .selector = selector};
    for (const double k : {1.5, 0.0, 5.0})
      EXPECT_NE(refusal(config, {.d_model = 8, .experts = 4, .k = k}, check_options)
                    .find("model.router.k gives"),
                std::string::npos)
          << selector << " " << k;
  }
}

TEST(CheckOptions, RefusesExpertsWithoutCapacity) {
  for (const char* const selector : {"topk-capacity", "gshard"})
    for (const char* const key : {"capacity", "eval_capacity"}) {
      RouterConfig config{.method = "topk", .scorer = "linear", .selector = selector};
      config.parts[selector] = node({{key, 0.0}});
      EXPECT_EQ(refusal(config, {.d_model = 8, .experts = 4, .k = 1}, check_options),
                concat("model.router.", selector, ".", key,
                       " = 0 leaves experts no capacity, so that none computes anything; set it "
                       "above 0, for example to 1.25"));
    }
}

TEST(MakeScorer, NamesThePartThatDoesNotFitIntoMemory) {
  RouterConfig config{.method = "router-upcycling"};
  config.parts["mixture"] =
      node({{"routers", std::int64_t{65536}}, {"width", std::int64_t{65536}}});
  testing::expect_says(refusal(config, {.d_model = 65536, .experts = 4, .k = 2}, make_scorer),
                       {"model.router.mixture: the parameters of this scorer"});
}

TEST(Resolve, ANameOfAnotherKindIsToldWhereItBelongs) {
  const std::string relu = error_of({.method = "relu"});
  testing::expect_says(relu,
                       {"model.router.method: 'relu' is a selector: write model.router.selector = "
                        "\"relu\", or a method that has it: 'remoe'"});
  testing::expect_says(error_of({.method = "z-loss"}), {"model.router.balancers = [\"z-loss\"]"});
  testing::expect_says(error_of({.method = "cosine"}), {"'cosine' is a scorer"});
  testing::expect_says(error_of({.method = "topk", .selector = "linear"}),
                       {"model.router.selector: 'linear' is a scorer"});
  testing::expect_says(error_of({.method = "topk", .selector = "remoe"}),
                       {"write model.router.method = \"remoe\""});
  testing::expect_says(error_of({.method = "topk", .balancers = Names{"relu"}}),
                       {"model.router.balancers: 'relu' is a selector"});
  // An unknown name gets the nearest known name as a suggestion.
  testing::expect_says(error_of({.method = "tokp"}), {"did you mean 'topk'"});
  // The suggested name may be of another kind.
  testing::expect_says(
      error_of({.method = "zloss"}),
      {"model.router.method: unknown method 'zloss'; did you mean 'z-loss'? 'z-loss' "
       "is a balancer: write model.router.balancers = [\"z-loss\"], or a method"});
  testing::expect_says(error_of({.method = "topk", .selector = "remo"}),
                       {"did you mean 'remoe'? 'remoe' is a method"});
}

TEST(Resolve, DenseHasNoParts) {
  const ResolvedRouter dense = resolve({.method = "dense"});
  EXPECT_TRUE(dense.dense());
  EXPECT_TRUE(make_balancers(dense, {}).empty());
  EXPECT_NE(
      error_of({.method = "dense", .parts = {{"topk", node({{"softmax", std::string("after")}})}}}),
      "no error");
  EXPECT_NE(error_of({.method = "dense", .selector = "relu"}), "no error");
  EXPECT_NE(error_of({.method = "dense", .balancers = Names{"z-loss"}}), "no error");
}

TEST(Resolve, PartsAndOptionsOverrideTheMethod) {
  const ResolvedRouter router = resolve({.method = "topk",
                                         .balancers = Names{"load-balance", "z-loss"},
                                         .parts = {{"load-balance", node({{"coefficient", 0.5}})},
                                                   {"topk", node({{"renormalise", true}})}}});
  EXPECT_EQ(router.balancers, (Names{"load-balance", "z-loss"}));
  EXPECT_EQ(option<double>(router, "load-balance", "coefficient"), 0.5);
  EXPECT_EQ(option<double>(router, "z-loss", "coefficient"), 0.001);
  EXPECT_EQ(option<std::string>(router, "topk", "softmax"), "before");
  EXPECT_TRUE(option<bool>(router, "topk", "renormalise"));
  EXPECT_TRUE(resolve({.method = "remoe", .balancers = Names{}}).balancers.empty());
}

TEST(Resolve, ASchedulesTableReachesTheSelector) {
  const ConfigNode options =
      node({{"schedule.kind", std::string("steps")},
            {"schedule.values", ConfigNode::Array{ConfigNode(std::int64_t{6})}},
            {"schedule.at", ConfigNode::Array{ConfigNode(std::int64_t{100})}}});
  const ResolvedRouter config = resolve({.method = "topk", .parts = {{"topk", options}}});
  const Router router(config, {.d_model = 4, .experts = 8, .k = 1}, {});
  EXPECT_EQ(router.selector().nominal_k({.step = 99, .training = true}), 6);
  EXPECT_EQ(router.selector().nominal_k({.step = 100, .training = true}), 1);
}

TEST(Resolve, AHypernetworkGoesWithReluAndAdaptiveL1) {
  const ResolvedRouter router = resolve({.method = "remoe", .scorer = "hypernetwork"});
  EXPECT_EQ(router.selector, "relu");
  EXPECT_EQ(router.balancers, (Names{"adaptive-l1"}));
  EXPECT_TRUE(router.traits.foldable);
}

TEST(Resolve, SaysWhyTheLoadLossDoesNotFit) {
  testing::expect_says(error_of({.method = "topk", .balancers = Names{"load"}}),
                       {"scorer 'linear' adds no noise of a known scale"});
  testing::expect_says(error_of({.method = "noisy-topk", .selector = "relu"}),
                       {"selector 'relu' does not choose by that"});
  testing::expect_says(error_of({.method = "thor", .scorer = "linear"}),
                       {"would never be trained"});
  testing::expect_says(error_of({.method = "thor", .balancers = Names{"importance"}}),
                       {"gives none"});
}

TEST(Resolve, ErrorsNameTheKeyAndTheRemedy) {
  testing::expect_says(error_of({.method = "remo"}), {"did you mean 'remoe'"});
  testing::expect_says(error_of({.scorer = "liner"}), {"did you mean 'linear'"});
  testing::expect_says(error_of({.selector = "top"}), {"did you mean 'topk'"});
  testing::expect_says(error_of({.balancers = Names{"z-los"}}), {"did you mean 'z-loss'"});
  testing::expect_says(error_of({.parts = {{"topkk", node({})}}}), {"did you mean 'topk'"});
  testing::expect_says(error_of({.parts = {{"relu", node({{"any", true}})}}}), {"not in use"});
  ConfigNode dotted;  // as a variant's set = {"model.router.relu.most" = 2}
  dotted.set("most", ConfigNode(std::int64_t{2}, "s.toml:7"));
  testing::expect_says(error_of({.parts = {{"relu", dotted}}}),
                       {"s.toml:7: model.router.relu: this part is not in use"});
  // An empty table of a part that is not in use is allowed.
  EXPECT_NO_THROW(resolve({.parts = {{"relu", node({})}}}));
  EXPECT_NO_THROW(resolve({.method = "dense", .parts = {{"relu", node({})}}}));
  testing::expect_says(error_of({.parts = {{"topk", node({{"softmx", true}})}}}),
                       {"model.router.topk.softmx"});
  testing::expect_says(error_of({.parts = {{"topk", node({{"softmax", std::string("during")}})}}}),
                       {"model.router.topk.softmax"});
  testing::expect_says(error_of({.balancers = Names{"z-loss", "z-loss"}}), {"twice"});
  testing::expect_says(error_of({.balancers = Names{"adaptive-l1"}}), {"adaptive-l1"});
}

TEST(Resolve, PartNamesAreUniqueAcrossKinds) {
  std::set<std::string> names;
  std::size_t parts = 0;
  const auto add = [&](const auto& registry) {
    for (const auto& [name, entry] : registry.entries()) {
      names.insert(name);
      ++parts;
      EXPECT_FALSE(entry.summary.empty()) << name;
      EXPECT_FALSE(entry.source.empty()) << name;
    }
  };
  add(scorer_registry());
  add(selector_registry());
  add(balancer_registry());
  EXPECT_EQ(names.size(), parts);
}

}  // namespace
}  // namespace penstock
