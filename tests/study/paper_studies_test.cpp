// The studies of ReMoE's tables and figures: their variants and steps, against the paper.
// paper_variants_test.cpp tests the variants of the other papers, paper_cells_test.cpp the
// published cells, and tests/train/paper_recipes_test.cpp the recipes that studies begin with.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "penstock/models/counts/parameter_count.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/train/read_recipe.h"
#include "tests/study/recipe_studies.h"

namespace penstock::study {
namespace {

const std::vector<std::string> kReMoEStudies = {
    "table1",  "table2",  "table3",   "table4",       "table5",          "table6",
    "table7",  "table12", "table13",  "table15",      "figure4",         "figure7",
    "figure8", "figure9", "figure10", "figure6-size", "figure6-experts", "figure6-granularity"};

StudyConfig study_of(const std::string& name, const std::string& scale) {
  return testing::recipe_study("remoe/" + name, scale);
}

Recipe recipe_of(const StudyConfig& study, const std::string& name) {
  return read_recipe(testing::variant_of(study, name).recipe);
}

TEST(ReMoEStudies, ReadAtBothScales) {
  for (const std::string& name : kReMoEStudies)
    for (const std::string scale : {"desk", "paper"}) {
      SCOPED_TRACE(name + " " + scale);
      const StudyConfig study = study_of(name, scale);
      EXPECT_FALSE(study.variants.empty());
      EXPECT_EQ(study.name, "remoe-" + name);
      for (const Variant& variant : study.variants) {
        const Recipe recipe = read_recipe(variant.recipe);
        EXPECT_EQ(recipe.notes, std::vector<std::string>()) << variant.name;
        if (name == "table1") continue;
        EXPECT_EQ(recipe.model.vocab, scale == "desk" ? 256 : 51200) << variant.name;
        EXPECT_EQ(recipe.model.layers, scale == "desk" ? 4 : recipe.model.d_model == 768 ? 12 : 24);
        // The authors' scripts warm up for 1 % of the steps.
        EXPECT_EQ(recipe.train.optimizer.warmup_steps,
                  scale == "desk" ? 20 : recipe.train.steps / 100)
            << variant.name;
      }
    }
}

/// Variants that a paper compares at equal steps have equal steps; those at equal compute are
/// matched.
TEST(ReMoEStudies, CompareEqualStepsOrEqualCompute) {
  for (const std::string& name : kReMoEStudies)
    for (const std::string scale : {"desk", "paper"}) {
      const StudyConfig study = study_of(name, scale);
      const std::int64_t steps = read_recipe(study.variants[0].recipe).train.steps;
      for (const Variant& variant : study.variants) {
        EXPECT_EQ(read_recipe(variant.recipe).train.steps, steps) << name << " " << variant.name;
        const bool matched = (name.starts_with("figure6") || name == "table13") &&
                             variant.name.starts_with("topk") &&
                             variant.name.find("warmup") == std::string::npos;
        EXPECT_EQ(!variant.match_compute.empty(), matched) << name << " " << variant.name;
        if (matched) {
          EXPECT_EQ(variant.match_compute, "remoe" + variant.name.substr(4)) << name;
        }
      }
    }
  for (const auto& [name, steps] : std::map<std::string, std::int64_t>{
           {"table2", 60000}, {"table3", 20000}, {"figure10", 20000}, {"table5", 28610}})
    EXPECT_EQ(read_recipe(study_of(name, "paper").variants[0].recipe).train.steps, steps);
}

/// Every MoE of Figure 6 is compared with the ReMoE whose compute it matches.
TEST(ReMoEStudies, Figure6ComparesReMoEWithTheMoEOfItsSize) {
  for (const std::string name : {"figure6-size", "figure6-experts", "figure6-granularity"})
    for (const std::string scale : {"desk", "paper"}) {
      const StudyConfig study = study_of(name, scale);
      const auto& pairs = study.comparison.pairs;
      int matched = 0;
      for (const Variant& variant : study.variants) {
        if (variant.match_compute.empty()) continue;
        ++matched;
        EXPECT_EQ(std::ranges::count(pairs, ChosenPair{variant.match_compute, variant.name}), 1)
            << name << " " << scale << " " << variant.name;
      }
      EXPECT_GT(matched, 0) << name << " " << scale;
    }
}

TEST(ReMoEStudies, SetWhatThePaperVaries) {
  const StudyConfig experts = study_of("figure6-experts", "paper");
  for (const std::int64_t e : {4, 8, 16, 32, 64, 128})
    for (const std::string method : {"topk", "remoe"}) {
      const Recipe recipe = recipe_of(experts, method + "-e" + std::to_string(e));
      EXPECT_EQ(recipe.model.moe.experts, e);
      EXPECT_EQ(recipe.model.router.k, 1);
      EXPECT_EQ(recipe.model.router.method, method);
    }
  const StudyConfig granularity = study_of("figure6-granularity", "paper");
  for (const std::int64_t g : {1, 2, 4, 8, 16, 32, 64}) {
    const Recipe recipe = recipe_of(granularity, "remoe-g" + std::to_string(g));
    EXPECT_EQ(recipe.model.total_experts(), 8 * g);
    EXPECT_EQ(recipe.model.expert_width(), 3072 / g);
  }
  // Dense x8 has as many parameters as all experts, without the routers' parameters.
  for (const std::string scale : {"desk", "paper"}) {
    const StudyConfig study = study_of("figure6-granularity", scale);
    const ModelConfig wide = recipe_of(study, "dense-x8").model,
                      moe = recipe_of(study, "topk-g1").model;
    EXPECT_EQ(count_parameters(wide).total,
              count_parameters(moe).total - moe.layers * moe.d_model * 8);
  }
  const StudyConfig warmup = study_of("table13", "paper");
  for (const auto& [e, k] : std::map<int, std::string>{{8, "[6]"}, {32, "[24]"}, {128, "[96]"}}) {
    const auto recipe =
        flatten(testing::variant_of(warmup, "topk-warmup-e" + std::to_string(e)).recipe);
    EXPECT_EQ(recipe.at("model.router.topk.schedule.values"), k);
    EXPECT_EQ(recipe.at("model.router.topk.schedule.at"), "[100]");
  }
  EXPECT_EQ(recipe_of(study_of("table5", "paper"), "remoe").train.batch_sequences, 4096);
  EXPECT_EQ(recipe_of(study_of("table5", "paper"), "remoe").model.d_model, 1024);
}

}  // namespace
}  // namespace penstock::study
