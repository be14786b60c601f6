// The studies that take the papers' methods apart, and those of options that no paper has. Variants
// that are compared must differ only in the property under study.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/io/toml.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_identity.h"
#include "tests/study/recipe_studies.h"

namespace penstock::study {
namespace {

using testing::variant_of;

StudyConfig study_of(const std::string& name) { return testing::recipe_study("studies/" + name); }

const ConfigNode& option(const ResolvedRouter& router, const char* part, const char* key) {
  return *router.options.at(part).find(key);
}

TEST(QuestionStudies, EveryVariantIsATrainableRecipe) {
  const std::map<std::string, std::size_t> variants{{"question1-routers", 22},
                                                    {"question1-distilled", 6},
                                                    {"question2-upcycling", 14},
                                                    {"question2-directions", 5},
                                                    {"question3-relu", 8}};
  for (const auto& [name, count] : variants) {
    SCOPED_TRACE(name);
    const StudyConfig study = study_of(name);
    EXPECT_EQ(study.name, name);
    EXPECT_EQ(study.variants.size(), count);
    EXPECT_EQ(study.seeds, (std::vector<std::int64_t>{1, 2, 3}));
    for (const Variant& variant : study.variants) {
      SCOPED_TRACE(variant.name);
      const Recipe recipe = read_recipe(variant.recipe);
      EXPECT_EQ(recipe.notes, std::vector<std::string>());
      EXPECT_EQ(recipe.run.threads, 1);
    }
  }
}

/// A distilled variant differs from its counterpart only in the distillation.
TEST(QuestionStudies, Question1DistilsWhereKIsDrawn) {
  const StudyConfig study = study_of("question1-routers");
  for (const std::string router : {"trained", "generated"}) {
    const Recipe with = read_recipe(variant_of(study, router + "-distilled").recipe);
    Recipe without = read_recipe(variant_of(study, router + "-drawn").recipe);
    EXPECT_EQ(resolve(with.model.router).traits.distillation, 1);
    without.model.router.parts["topk"].set("distil", 1.0);
    EXPECT_EQ(to_toml(written_out(without)), to_toml(written_out(with))) << router;
  }
}

/// The study of distillation has the runs of question 1, and undistilled ones of equal compute.
TEST(QuestionStudies, DistillationIsComparedAtEqualCompute) {
  const StudyConfig study = study_of("question1-distilled"), all = study_of("question1-routers");
  EXPECT_EQ(study.runs_of, all.name);
  for (const std::string router : {"trained", "generated"}) {
    for (const std::string kind : {"-drawn", "-distilled"})
      EXPECT_EQ(to_toml(variant_of(study, router + kind).recipe),
                to_toml(variant_of(all, router + kind).recipe));
    const Variant& longer = variant_of(study, router + "-drawn-longer");
    EXPECT_EQ(longer.match_compute, router + "-distilled");
    EXPECT_EQ(to_toml(longer.recipe), to_toml(variant_of(study, router + "-drawn").recipe));
  }
}

TEST(QuestionStudies, LeaksDifferInTheLeakAlone) {
  const StudyConfig study = study_of("remoe-leak");
  ASSERT_EQ(study.variants.size(), 5u);
  const Recipe none = read_recipe(variant_of(study, "none").recipe);
  EXPECT_EQ(none.model.total_experts(), 32);
  EXPECT_EQ(none.train.optimizer.lr, 2e-3);
  for (const auto& [name, leak] :
       std::map<std::string, double>{{"longer", 0}, {"leak-0-1", 0.1}, {"leak-1", 1}}) {
    const Variant& variant = variant_of(study, name);
    EXPECT_EQ(variant.match_compute, name == "longer" ? "leak-1" : "") << name;
    Recipe recipe = read_recipe(variant.recipe);
    EXPECT_EQ(recipe.notes, std::vector<std::string>()) << name;
    const ResolvedRouter router = resolve(recipe.model.router);
    EXPECT_EQ(std::get<double>(option(router, "relu", "leak").value()), leak);
    recipe.model.router.parts["relu"].set("leak", 0.0);
    Recipe without = none;
    without.model.router.parts["relu"].set("leak", 0.0);
    EXPECT_EQ(to_toml(written_out(recipe)), to_toml(written_out(without))) << name;
  }
}

/// All variants have equal steps, except those matched by FLOPs. All first logits have the same
/// variance.
TEST(QuestionStudies, Question1CrossesRoutersAndSchedules) {
  const StudyConfig study = study_of("question1-routers");
  for (const std::string router : {"trained", "random", "generated", "subspace"})
    for (const std::string schedule : {"k2", "k2-16", "k8-16", "drawn", "k2-longer"}) {
      SCOPED_TRACE(router + "-" + schedule);
      const Variant& variant = variant_of(study, router + "-" + schedule);
      const Recipe recipe = read_recipe(variant.recipe);
      const ResolvedRouter parts = resolve(recipe.model.router);
      EXPECT_EQ(variant.match_compute, schedule == "k2-longer" ? router + "-k2-16" : "");
      EXPECT_EQ(parts.traits.trainable, router != "random");
      EXPECT_EQ(parts.scorer == "hypernetwork", router == "generated" || router == "subspace");
      EXPECT_EQ(std::get<bool>(option(parts, parts.scorer.c_str(), "bias").value()), false);
      if (parts.scorer == "hypernetwork")
        EXPECT_EQ(std::get<std::string>(option(parts, "hypernetwork", "init").value()),
                  "hyperfan-in");
      else  // the inputs are 128 features of unit variance
        EXPECT_NEAR(recipe.model.router.init_std * recipe.model.router.init_std * 128, 1, 1e-3);
    }
}

/// The comparisons that the file's first lines promise, and no others.
TEST(QuestionStudies, Question1ComparesOneThingAtATime) {
  std::set<std::pair<std::string, std::string>> wanted;
  for (const std::string schedule : {"-k2", "-k2-16", "-k8-16", "-drawn"})
    for (const std::string router : {"trained", "random", "subspace"})
      wanted.insert({"generated" + schedule, router + schedule});
  for (const std::string router : {"trained", "random", "generated", "subspace"}) {
    for (const std::string schedule : {"-k2-16", "-k8-16", "-drawn"})
      wanted.insert({router + schedule, router + "-k2"});
    wanted.insert({router + "-k2-16", router + "-k2-longer"});
  }
  for (const std::string router : {"trained", "generated"})
    wanted.insert({router + "-distilled", router + "-drawn"});
  std::set<std::pair<std::string, std::string>> pairs;
  for (const ChosenPair& pair : study_of("question1-routers").comparison.pairs)
    pairs.insert({pair.first.names.at(0), pair.second.names.at(0)});
  EXPECT_EQ(pairs, wanted);
}

/// Distillation is compared at equal steps and at equal compute.
TEST(QuestionStudies, DistilledIsComparedWithDrawnAndLonger) {
  const auto pairs = study_of("question1-distilled").comparison.pairs;
  ASSERT_EQ(pairs.size(), 4u);
  for (const std::string router : {"trained", "generated"})
    for (const std::string other : {"-drawn", "-drawn-longer"})
      EXPECT_EQ(std::ranges::count(pairs, ChosenPair{router + "-distilled", router + other}), 1);
}

TEST(QuestionStudies, Question2IsABalancedFractionOfItsDesign) {
  std::vector<std::vector<int>> runs;  // levels of directions, size, learning rate, gates, experts
  for (const Variant& variant : study_of("question2-upcycling").variants) {
    if (variant.upcycle.empty()) continue;
    const auto options = read_config<UpcycleOptions>(variant.upcycle, "upcycle");
    const double even = std::log(static_cast<double>(8 * options.granularity));
    const double share = options.start_entropy / even;
    EXPECT_TRUE(std::abs(share - 0.96) < 0.005 || std::abs(share - 0.48) < 0.005) << variant.name;
    EXPECT_EQ(options.collapsed, options.method == "router-upcycling");
    runs.push_back({options.method == "vanilla",
                    share<0.7, options.match_lr, options.renormalise, options.noise> 0 ? 1
                    : options.granularity > 1                                          ? 2
                                                                                       : 0});
  }
  ASSERT_EQ(runs.size(), 12u);
  for (std::size_t a = 0; a < 5; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      std::map<std::pair<int, int>, int> together;
      for (const auto& run : runs) ++together[{run[a], run[b]}];
      EXPECT_EQ(together.size(), a == 4 ? 6u : 4u);
      for (const auto& [pair, count] : together) EXPECT_EQ(count, a == 4 ? 2 : 3) << a << " " << b;
    }
}

/// The groups of a factor are the twelve variants by their options.
TEST(QuestionStudies, Question2ComparesTheLevelsOfEachFactor) {
  const StudyConfig study = study_of("question2-upcycling");
  std::map<std::string, std::set<std::string>> levels;
  for (const Variant& variant : study.variants) {
    if (variant.upcycle.empty()) continue;
    const auto options = read_config<UpcycleOptions>(variant.upcycle, "upcycle");
    const double even = std::log(static_cast<double>(8 * options.granularity));
    levels[options.collapsed ? "heads" : "random"].insert(variant.name);
    levels[options.start_entropy > 0.7 * even ? "small" : "large"].insert(variant.name);
    levels[options.match_lr ? "lr matched" : "lr of the model"].insert(variant.name);
    levels[options.renormalise ? "renormalised" : "two of all"].insert(variant.name);
    levels[options.noise > 0         ? "noise"
           : options.granularity > 1 ? "shards"
                                     : "copies"]
        .insert(variant.name);
  }
  const auto group = [](const VariantGroup& names) {
    return std::set<std::string>(names.names.begin(), names.names.end());
  };
  const auto& pairs = study.comparison.pairs;
  const std::vector<std::array<std::string, 2>> wanted = {{"heads", "random"},
                                                          {"small", "large"},
                                                          {"lr matched", "lr of the model"},
                                                          {"renormalised", "two of all"},
                                                          {"noise", "copies"},
                                                          {"shards", "copies"},
                                                          {"shards", "noise"}};
  ASSERT_EQ(pairs.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(wanted[i][0]);
    EXPECT_EQ(group(pairs[i].first), levels.at(wanted[i][0]));
    EXPECT_EQ(group(pairs[i].second), levels.at(wanted[i][1]));
    EXPECT_EQ(pairs[i].first.names.size(), i < 4 ? 6u : 4u);
    EXPECT_TRUE(pairs[i].label.has_value());
  }
}

/// Random directions are those of vanilla upcycling's scorer.
TEST(QuestionStudies, Question2sControlVariesTheDirectionsAlone) {
  const StudyConfig study = study_of("question2-directions");
  std::set<RouterDirections> directions;
  std::set<std::string> others;  // the other options of each variant
  for (const Variant& variant : study.variants) {
    if (variant.upcycle.empty()) continue;
    const auto options = read_config<UpcycleOptions>(variant.upcycle, "upcycle");
    EXPECT_EQ(options.collapsed, options.method == "router-upcycling") << variant.name;
    directions.insert(options.collapsed ? RouterDirections::heads
                                        : options.directions.value_or(RouterDirections::random));
    ConfigNode::Table rest = variant.upcycle.table();
    for (const char* key : {"method", "collapsed", "directions"}) rest.erase(key);
    others.insert(to_toml(ConfigNode(rest)));
  }
  EXPECT_EQ(directions.size(), 3u);
  EXPECT_EQ(others.size(), 1u);
}

/// Both studies have the same run of heads, so one run serves both.
TEST(QuestionStudies, Question2sControlSharesTheRunOfHeads) {
  const std::string name = "noise-heads-small-renormalised";
  const Variant one = variant_of(study_of("question2-directions"), name);
  const Variant other = variant_of(study_of("question2-upcycling"), name);
  EXPECT_EQ(to_toml(one.recipe), to_toml(other.recipe));
  EXPECT_EQ(to_toml(one.upcycle), to_toml(other.upcycle));
}

TEST(QuestionStudies, Question3VariesGatesCapAndController) {
  const StudyConfig study = study_of("question3-relu");
  std::set<std::string> others;
  for (const Variant& variant : study.variants) {
    const Recipe recipe = read_recipe(variant.recipe);
    EXPECT_EQ(recipe.model.active_experts(), 2) << variant.name;
    EXPECT_EQ(recipe.model.total_experts(), 16) << variant.name;
    ConfigNode rest = variant.recipe;
    ConfigNode::Table model = rest.find("model")->table();
    model.erase("router");
    rest.set("model", std::move(model));
    others.insert(config_hash(rest, ""));
  }
  EXPECT_EQ(others.size(), 1u);  // the variants differ only in routers
  const auto parts = [&](const char* name) {
    return resolve(read_recipe(variant_of(study, name).recipe).model.router);
  };
  EXPECT_EQ(parts("relu-topk").balancers, parts("softmax").balancers);
  EXPECT_EQ(parts("relu-most").balancers, parts("remoe-held").balancers);
  EXPECT_EQ(std::get<std::int64_t>(option(parts("relu-topk"), "relu", "most").value()), 2);
  EXPECT_EQ(std::get<std::int64_t>(option(parts("relu-most"), "relu", "most").value()), 4);
  EXPECT_EQ(study.comparison.pairs.size(), 8u);
}

TEST(QuestionStudies, ScalingComparesMethodsAndNumbersOfExperts) {
  const auto pairs = study_of("remoe-scaling").comparison.pairs;
  EXPECT_EQ(pairs, (std::vector<ChosenPair>{{"remoe-e4", "topk-e4"},
                                            {"remoe-e32", "topk-e32"},
                                            {"remoe-e4", "remoe-e32"},
                                            {"topk-e4", "topk-e32"}}));
}

}  // namespace
}  // namespace penstock::study
