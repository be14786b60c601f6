// The variants of HyperRouter's and Router Upcycling's studies, against the papers, at both scales.
// paper_studies_test.cpp tests those of ReMoE, and tests/train/paper_recipes_test.cpp the recipes.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/train/read_recipe.h"
#include "tests/study/recipe_studies.h"

namespace penstock::study {
namespace {

using testing::recipe_study;
using testing::variant_of;

/// The k of the schedule's first step; -1 if k has no linear schedule.
std::int64_t first_k(const Recipe& recipe) {
  const ResolvedRouter router = resolve(recipe.model.router);
  const ConfigNode& schedule = *router.options.at("topk").find("schedule");
  if (std::get<std::string>(schedule.find("kind")->value()) != "linear") return -1;
  return std::get<std::int64_t>(schedule.find("start")->value());
}

std::string softmax_of(const Recipe& recipe) {
  const ResolvedRouter router = resolve(recipe.model.router);
  return std::get<std::string>(router.options.at("topk").find("softmax")->value());
}

/// k grows to all 16 experts: from 2, as the text says, and for SMoE from 8, as in the scripts.
/// Only Dense+Dropout and, at the published scale, the routers have dropout; none leaves out
/// blocks.
TEST(PaperVariants, OfHyperRouterHaveTheirScheduleAndDropout) {
  const std::map<std::string, std::vector<std::string>> sizes = {
      {"table1", {""}}, {"figure1", {""}}, {"table2", {"-medium", "-large"}}};
  for (const auto& [name, suffixes] : sizes)
    for (const std::string scale : {"desk", "paper"}) {
      const StudyConfig study = recipe_study("hyperrouter/" + name, scale);
      const bool desk = scale == "desk";
      EXPECT_EQ(study.seeds,
                desk ? (std::vector<std::int64_t>{1, 2, 3}) : (std::vector<std::int64_t>{1111}));
      const auto expect_dropout = [&](const Recipe& recipe, double dropout) {
        EXPECT_EQ(recipe.model.xl.dropout, dropout);
        EXPECT_EQ(recipe.model.xl.ffn_dropout, -1);
        EXPECT_EQ(recipe.model.xl.ffn_block_dropout, 0);
      };
      for (const std::string& suffix : suffixes)
        for (const auto& [method, first] : std::map<std::string, std::int64_t>{
                 {"smoe", 8}, {"smoe-dropout", 2}, {"hyperrouter", 2}}) {
          SCOPED_TRACE(name + " " + scale + " " + method + suffix);
          const Recipe recipe = read_recipe(variant_of(study, method + suffix).recipe);
          EXPECT_EQ(recipe.model.router.method, method);
          EXPECT_EQ(recipe.model.router.k, 16);
          EXPECT_EQ(first_k(recipe), first);
          expect_dropout(recipe, desk || method == "smoe" ? 0 : 0.1);
        }
      if (name == "table2") continue;
      SCOPED_TRACE(name + " " + scale);
      expect_dropout(read_recipe(variant_of(study, "dense").recipe), 0);
      expect_dropout(read_recipe(variant_of(study, "dense-dropout").recipe), 0.1);
    }
}

/// The authors' script for Dense+Dropout on WikiText-103 has fewer and larger steps; Table A1 has
/// the others.
TEST(PaperVariants, OfFigure1HaveThePublishedSteps) {
  for (const Variant& variant : recipe_study("hyperrouter/figure1", "paper").variants) {
    const TrainConfig train = read_recipe(variant.recipe).train;
    const bool other = variant.name == "dense-dropout";
    EXPECT_EQ(train.steps, other ? 134000 : 400000) << variant.name;
    EXPECT_EQ(train.batch_sequences, other ? 66 : 22) << variant.name;
  }
}

/// The published cells of WikiText-103 also stand beneath the scripts' schedule of k, which made
/// them. The desk scale has the text's schedule alone.
TEST(PaperVariants, OfFigure1HaveTheCellsBeneathTheScriptsScheduleToo) {
  const StudyConfig study = recipe_study("hyperrouter/figure1", "paper");
  const auto& cells = study.comparison.published;
  for (const auto& [method, of_one_expert] :
       std::map<std::string, double>{{"smoe-dropout", 560.93}, {"hyperrouter", 65.17}}) {
    const std::string scripts = method + "-8-16";
    EXPECT_EQ(first_k(read_recipe(variant_of(study, scripts).recipe)), 8) << method;
    EXPECT_EQ(cells.at(scripts).at("k1"), of_one_expert) << method;
    EXPECT_EQ(cells.at(scripts), cells.at(method)) << method;
  }
  EXPECT_EQ(recipe_study("hyperrouter/figure1", "desk").variants.size(), 5U);
}

/// The same of Table 2 in both sizes, and of the entropies in Tables 4 and A5, which are those of
/// the runs of choices.toml.
TEST(PaperVariants, OfTables2And4HaveTheCellsBeneathTheScriptsScheduleToo) {
  const StudyConfig deeper = recipe_study("hyperrouter/table2", "paper");
  for (const std::string method : {"smoe-dropout", "hyperrouter"})
    for (const std::string size : {"-medium", "-large"}) {
      SCOPED_TRACE(method + size);
      const std::string scripts = method + size + "-8-16";
      EXPECT_EQ(first_k(read_recipe(variant_of(deeper, scripts).recipe)), 8);
      EXPECT_EQ(deeper.comparison.published.at(scripts),
                deeper.comparison.published.at(method + size));
    }
  EXPECT_EQ(recipe_study("hyperrouter/table2", "desk").variants.size(), 6U);
  const StudyConfig choices = recipe_study("hyperrouter/choices", "paper");
  for (const std::string name : {"hyperrouter/table4", "hyperrouter/tableA5"}) {
    const StudyConfig study = recipe_study(name, "paper");
    EXPECT_EQ(study.runs_of, choices.runs_of) << name;
    for (const std::string method : {"smoe-dropout", "hyperrouter"}) {
      const std::string scripts = method + "-8-16";
      EXPECT_EQ(to_toml(variant_of(study, scripts).recipe),
                to_toml(variant_of(choices, scripts).recipe));
      EXPECT_EQ(study.comparison.published.at(scripts).at("layer0"),
                study.comparison.published.at(method).at("layer0"))
          << name << " " << method;
    }
    EXPECT_EQ(recipe_study(name, "desk").variants.size(), 3U) << name;
  }
}

/// The alternatives to Table 1's variants differ from these in what their names say.
TEST(PaperVariants, OfHyperRoutersChoicesAreTheAlternatives) {
  for (const std::string scale : {"desk", "paper"}) {
    const StudyConfig study = recipe_study("hyperrouter/choices", scale);
    const auto recipe = [&](const std::string& name) {
      return read_recipe(variant_of(study, name).recipe);
    };
    for (const std::string method : {"smoe-dropout", "hyperrouter"})
      EXPECT_EQ(first_k(recipe(method + "-8-16")), 8) << scale << method;
    EXPECT_EQ(first_k(recipe("smoe-2-16")), 2) << scale;
    EXPECT_EQ(first_k(recipe("smoe-8-16-dropout")), 8) << scale;
    EXPECT_EQ(recipe("smoe-8-16-dropout").model.xl.dropout, 0.1) << scale;
    EXPECT_EQ(recipe("smoe-k2").model.router.k, 2) << scale;
    EXPECT_EQ(first_k(recipe("smoe-k2")), -1) << scale;
    EXPECT_EQ(first_k(recipe("smoe-before")), 8) << scale;
    EXPECT_EQ(first_k(recipe("smoe-2-16-before")), 2) << scale;
    for (const std::string name :
         {"smoe-before", "smoe-2-16-before", "smoe-k2-before", "hyperrouter-before-8-16"})
      EXPECT_EQ(softmax_of(recipe(name)), "before") << scale << name;
    EXPECT_EQ(softmax_of(recipe("smoe-2-16")), "after") << scale;
    // Dropout inside the fully connected layers alone, as the text says.
    const Recipe inside = recipe("dense-dropout-fc");
    EXPECT_EQ(inside.model.xl.dropout, 0) << scale;
    EXPECT_EQ(inside.model.xl.ffn_dropout, 0.1) << scale;
  }
}

struct Upcycled {
  const char *table, *variant, *method;
  double k;
  std::int64_t experts, routers, keys;
  bool highest;
};

/// Section 4.1 and Table 2: 8 copies and top-2 (Switch: top-1), keys from 10 batches of 1024 x 4096
/// tokens. 0 routers: as many as experts.
TEST(PaperVariants, OfRouterUpcyclingAreThePapers) {
  const std::vector<Upcycled> expected = {
      {"1", "vanilla", "vanilla", 2, 8, 0, 0, false},
      {"1", "switch", "switch", 1, 8, 0, 0, false},
      {"1", "locmoe", "locmoe", 2, 8, 0, 0, false},
      {"1", "mlp", "mlp", 2, 8, 0, 0, false},
      {"1", "router-upcycling", "router-upcycling", 2, 8, 0, 0, false},
      {"2", "m2-n8-key8", "router-upcycling", 2, 8, 2, 8, false},
      {"2", "m4-n8-key8", "router-upcycling", 2, 8, 4, 8, false},
      {"2", "m16-n8-key16", "router-upcycling", 2, 8, 16, 16, false},
      {"2", "m32-n8-key32", "router-upcycling", 2, 8, 32, 32, false},
      {"2", "m16-n16-key16", "router-upcycling", 2, 16, 16, 16, false},
      {"3", "max", "router-upcycling", 2, 8, 0, 0, true}};
  for (const Upcycled& one : expected)
    for (const std::string scale : {"desk", "paper"}) {
      SCOPED_TRACE(std::string(one.variant) + " " + scale);
      const StudyConfig study =
          recipe_study(std::string("router-upcycling/table") + one.table, scale);
      const Variant& variant = variant_of(study, one.variant);
      EXPECT_EQ(variant.from, scale == "paper" ? "models/Qwen1.5-0.5B" : "parent");
      const auto options = read_config<UpcycleOptions>(variant.upcycle, "upcycle");
      EXPECT_EQ(options.method, one.method);
      EXPECT_EQ(options.k, one.k);
      EXPECT_EQ(options.experts, one.experts);
      EXPECT_EQ(options.routers, one.routers);
      EXPECT_EQ(options.keys, one.keys);
      EXPECT_EQ(options.pool == RouterPool::max, one.highest);
      EXPECT_FALSE(options.collapsed || options.match_lr || options.match_logits);
      EXPECT_EQ(options.untie, scale == "paper");
      if (scale == "paper") {
        EXPECT_EQ(options.calibration_tokens, 10 * 1024 * 4096);
        EXPECT_EQ(options.calibration_window, 4096);
      }
    }
}

}  // namespace
}  // namespace penstock::study
