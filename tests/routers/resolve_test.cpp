// Resolving a recipe's router table into parts and options, and the errors of wrong tables.
#include "penstock/routers/resolve.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/routers/coefficients.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/option_notes.h"
#include "penstock/routers/router.h"
#include "tests/base/error_of.h"
#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::node;
using Names = std::vector<std::string>;

template <class T>
T option(const ResolvedRouter& router, const std::string& part, const std::string& key) {
  return std::get<T>(router.options.at(part).find(key)->value());
}

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

/// The numbers that papers give: ReMoE section 4.1 and its scripts (topk, Lory's segments), GRIN's
/// code, Router Upcycling section 4.1, Switch Transformer (capacity, jitter), THOR's code, and
/// Shazeer et al.
TEST(Resolve, MethodsHaveThePublishedNumbers) {
  struct Number {
    const char *method, *part, *key;
    double value;
  };
  const std::vector<Number> numbers = {{"topk", "load-balance", "coefficient", 0.01},
                                       {"sparsemixer-v2", "load-balance", "coefficient", 0.01},
                                       {"sparsemixer-v2", "sparsemixer-v2", "jitter", 0.01},
                                       {"switch", "load-balance", "coefficient", 0.01},
                                       {"switch", "topk-capacity", "capacity", 1.25},
                                       {"switch", "topk-capacity", "eval_capacity", 2},
                                       {"switch", "jitter-linear", "epsilon", 0.01},
                                       {"locmoe", "locality", "coefficient", 0},
                                       {"thor", "thor", "consistency", 5},
                                       {"noisy-topk", "importance", "coefficient", 0.1},
                                       {"noisy-topk", "load", "coefficient", 0.1}};
  for (const auto& [method, part, key, value] : numbers)
    EXPECT_EQ(option<double>(resolve({.method = method}), part, key), value) << method << part;
  EXPECT_EQ(option<std::int64_t>(resolve({.method = "lory"}), "lory", "segment_length"), 256);
  for (const std::string method :
       {"vanilla", "mlp", "locmoe", "router-upcycling", "router-upcycling-max"}) {
    const ResolvedRouter router = resolve({.method = method});
    EXPECT_EQ(option<double>(router, "load-balance", "coefficient"), 0.02) << method;
    EXPECT_EQ(option<double>(router, "z-loss", "coefficient"), 0.001) << method;
    EXPECT_EQ(option<std::string>(router, "topk", "softmax"), "before") << method;
    EXPECT_FALSE(option<bool>(router, "topk", "renormalise")) << method;
  }
  EXPECT_EQ(option<std::string>(resolve({.method = "mlp"}), "mlp", "activation"), "gelu");
  EXPECT_EQ(option<std::string>(resolve({.method = "router-upcycling"}), "mixture", "pool"), "sum");
  EXPECT_EQ(option<std::string>(resolve({.method = "router-upcycling-max"}), "mixture", "pool"),
            "max");
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
  ConfigNode steps;
  steps.set("schedule.kind", ConfigNode(std::string("steps")));
  const std::vector<std::pair<RouterConfig, std::string>> cases = {
      {{.method = "topk"}, "accepted"},
      {with("topk", "topk", steps), "schedule.kind"},
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

TEST(OptionNotes, AreOfWhatTheConfigItselfGives) {
  const RouterShape shape{.d_model = 8, .experts = 4, .k = 4};
  ConfigNode constant;
  constant.set("schedule.kind", ConfigNode(std::string("constant")));
  RouterConfig config{.method = "hyperrouter"};  // the method's own schedule starts at 2
  config.parts["topk"] = constant;
  EXPECT_EQ(option_notes(config, shape, 100), Names());
  config.parts["topk"].set("schedule.start", ConfigNode(std::int64_t{2}));
  EXPECT_EQ(option_notes(config, shape, 100),
            Names{"model.router.topk.schedule.start = 2: nothing reads this, because "
                  "model.router.topk.schedule.kind = \"constant\"; \"linear\" and \"cosine\" read "
                  "it"});
  config.parts["hypernetwork"] =
      node({{"form", std::string("linear")}, {"hidden", std::int64_t{64}}});
  EXPECT_EQ(option_notes(config, shape, 100).front(),
            "model.router.hypernetwork.hidden = 64: nothing reads this, because form = \"linear\" "
            "has no hidden layer");
}

TEST(OptionNotes, SayWhereAScheduleGoesOnBeyondTheRun) {
  const RouterShape shape{.d_model = 8, .experts = 4, .k = 4};
  RouterConfig config{.method = "topk", .k = 4};
  ConfigNode& options = config.parts["topk"];
  options.set("schedule.kind", ConfigNode(std::string("linear")));
  options.set("schedule.over", ConfigNode(std::int64_t{100}));
  EXPECT_EQ(option_notes(config, shape, 100), Names());
  EXPECT_EQ(option_notes(config, shape, 51),
            Names{"model.router.topk.schedule.over = 100 is above train.steps = 51: k ends at 3, "
                  "on the way to model.router.k = 4"});
  options = ConfigNode();
  options.set("schedule.kind", ConfigNode(std::string("steps")));
  options.set("schedule.values", ConfigNode(ConfigNode::Array{ConfigNode(std::int64_t{2})}));
  options.set("schedule.at", ConfigNode(ConfigNode::Array{ConfigNode(std::int64_t{50})}));
  EXPECT_EQ(option_notes(config, shape, 51), Names());
  EXPECT_EQ(option_notes(config, shape, 50),
            Names{"model.router.topk.schedule.at ends at step 50, which train.steps = 50 does not "
                  "come to: training never uses model.router.k = 4"});
}

TEST(MakeScorer, NamesThePartThatDoesNotFitIntoMemory) {
  RouterConfig config{.method = "router-upcycling"};
  config.parts["mixture"] =
      node({{"routers", std::int64_t{65536}}, {"width", std::int64_t{65536}}});
  testing::expect_says(refusal(config, {.d_model = 65536, .experts = 4, .k = 2}, make_scorer),
                       {"model.router.mixture: the parameters of this scorer"});
}

TEST(Coefficients, AreThoseThatThePartsMark) {
  EXPECT_EQ(coefficient_keys({.method = "vanilla"}),
            (Names{"model.router.load-balance.coefficient", "model.router.z-loss.coefficient"}));
  EXPECT_EQ(coefficient_keys({.method = "thor"}), Names{"model.router.thor.consistency"});
  EXPECT_EQ(coefficient_keys({.method = "hyperrouter"}).front(), "model.router.hypernetwork.l2");
  EXPECT_TRUE(coefficient_keys({.method = "dense"}).empty());
  EXPECT_TRUE(coefficients("no such part").empty());
  // A coefficient of 0 leaves the loss out, so 0 must be allowed.
  for (const auto& [name, entry] : balancer_registry().entries())
    for (const std::string& option : coefficients(name)) {
      ConfigNode options;
      options.set(option, ConfigNode(0.0));
      EXPECT_NO_THROW(entry.complete(options)) << name << "." << option;
    }
}

TEST(Coefficients, AreLaidOverARouterAndNothingElseIs) {
  const RouterConfig own{.method = "vanilla"};
  RouterConfig asked{
      .method = "vanilla", .k = 3, .parts = {{"z-loss", node({{"coefficient", 0.5}})}}};
  const RouterConfig joined = with_coefficients(own, asked);
  EXPECT_EQ(joined.k, own.k);
  EXPECT_EQ(option<double>(resolve(joined), "z-loss", "coefficient"), 0.5);
  EXPECT_EQ(option<double>(resolve(joined), "load-balance", "coefficient"), 0.02);
}

TEST(Coefficients, TheRemedyNamesTheKey) {
  testing::expect_says(remedy_for_loss("z-loss"), {"model.router.z-loss.coefficient = 0"});
  EXPECT_TRUE(remedy_for_loss("z-loss").ends_with(", or start from smaller logits"));
  EXPECT_EQ(remedy_for_loss("adaptive-l1"), "look at its options (`penstock routers adaptive-l1`)");
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
  const auto list = [](std::int64_t value) {
    return ConfigNode::Array{ConfigNode(ConfigNode::Value(value))};
  };
  ConfigNode options = node({});
  options.set("schedule.kind", ConfigNode(std::string("steps")));
  options.set("schedule.values", ConfigNode(list(6)));
  options.set("schedule.at", ConfigNode(list(100)));
  const ResolvedRouter config = resolve({.method = "topk", .parts = {{"topk", options}}});
  const Router router(config, {.d_model = 4, .experts = 8, .k = 1}, {});
  EXPECT_EQ(router.selector().nominal_k({.step = 99, .training = true}), 6);
  EXPECT_EQ(router.selector().nominal_k({.step = 100, .training = true}), 1);
}

TEST(Resolve, HyperRouterFollowsTheAuthorsGateOnThePapersSchedule) {
  for (const std::string method : {"hyperrouter", "smoe-dropout"}) {
    const ResolvedRouter router = resolve({.method = method});
    EXPECT_EQ(option<std::string>(router, "topk", "softmax"), "after");
    const RouterShape shape{.d_model = 4, .experts = 16, .k = 16};
    const auto k_at = [&](const ResolvedRouter& config, std::int64_t step) {
      return Router(config, shape, {})
          .selector()
          .nominal_k({.step = step, .total_steps = 400000, .training = true});
    };
    EXPECT_EQ(k_at(router, 0), 2);
    EXPECT_EQ(k_at(router, 200000), 9);
    EXPECT_EQ(k_at(router, 399999), 16);
    ConfigNode scripts = node({});
    scripts.set("schedule.start", ConfigNode(std::int64_t{8}));
    const ResolvedRouter code = resolve({.method = method, .parts = {{"topk", scripts}}});
    EXPECT_EQ(k_at(code, 25000), 8);  // k = 8.5 rounds to the even 8
    EXPECT_EQ(k_at(code, 25001), 9);
  }
  EXPECT_TRUE(option<bool>(resolve({.method = "smoe-dropout"}), "random", "bias"));
  EXPECT_TRUE(option<bool>(resolve({.method = "smoe"}), "linear", "bias"));
  EXPECT_FALSE(resolve({.method = "smoe-dropout"}).traits.trainable);
  EXPECT_EQ(resolve({.method = "thor"}).traits.forward_passes, 2);
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

TEST(Resolve, EveryMethodBuildsARouter) {
  for (const auto& [name, method] : method_registry().entries()) {
    EXPECT_FALSE(method.summary.empty()) << name;
    EXPECT_FALSE(method.source.empty()) << name;
    const ResolvedRouter router = resolve({.method = name});
    const RouterShape shape{.d_model = 4, .experts = 4, .k = 2};
    if (!router.dense()) {
      EXPECT_NO_THROW(Router(router, shape, make_balancers(router, shape))) << name;
    }
  }
}

TEST(Resolve, ErrorsNameTheKeyAndTheRemedy) {
  testing::expect_says(error_of({.method = "remo"}), {"did you mean 'remoe'"});
  testing::expect_says(error_of({.scorer = "liner"}), {"did you mean 'linear'"});
  testing::expect_says(error_of({.selector = "top"}), {"did you mean 'topk'"});
  testing::expect_says(error_of({.balancers = Names{"z-los"}}), {"did you mean 'z-loss'"});
  testing::expect_says(error_of({.parts = {{"topkk", node({})}}}), {"did you mean 'topk'"});
  testing::expect_says(error_of({.parts = {{"relu", node({{"any", true}})}}}), {"not in use"});
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
