// The search over layouts, compared with an estimate of every layout.
#include "penstock/train/layouts/layout_search.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "tests/base/error_of.h"
#include "tests/train/recipe_text.h"

namespace penstock {
namespace {

using testing::recipe_from;

constexpr MachineSpeeds kSpeeds{.flops = 1e9, .bandwidth = 1e7, .latency = 1e-5};

Recipe searched_recipe(std::vector<std::string> overrides = {}) {
  for (const char* more : {"train.micro_batch=1", "model.vocab=256"}) overrides.push_back(more);
  return recipe_from(overrides);
}

/// The shortest time of all products of axes. Each product is estimated by itself.
double fastest_by_hand(const Recipe& recipe, int ranks, double memory, std::size_t& taken) {
  double best = 1e300;
  for (std::int64_t code = 0; code < 4 * 4 * 4 * 3 * 4 * 2; ++code) {
    Recipe tried = recipe;
    ParallelConfig& p = tried.parallel;
    p.tensor = std::int64_t{1} << code % 4;
    p.pipeline = std::int64_t{1} << code / 4 % 4;
    p.expert = std::int64_t{1} << code / 16 % 4;
    p.pipeline_chunks = 1 + code / 64 % 3;
    p.zero = code / 192 % 4;
    p.sequence = code / 768 > 0;
    p.data = ranks / (p.tensor * p.pipeline);
    const bool idle = (p.pipeline == 1 && p.pipeline_chunks > 1) || (p.data == 1 && p.zero > 0);
    if (p.tensor * p.pipeline > ranks || idle || p.data % p.expert != 0) continue;
    try {
      const RankEstimate one = estimate_rank(tried, layout_of(tried, ranks), kSpeeds);
      ++taken;
      if (static_cast<double>(one.memory_bytes()) <= memory)
        best = std::min(best, one.step_seconds);
    } catch (const Error&) {
    }
  }
  return best;
}

TEST(LayoutSearch, FindsTheFastestOfAllThatFit) {
  const Recipe recipe = searched_recipe();
  const auto all = search_layouts(recipe, 8, 0, kSpeeds, 1000).fastest;
  const auto middle = static_cast<double>(all[all.size() / 2].estimate.memory_bytes());
  for (const double memory : {1e12, middle}) {
    std::size_t taken = 0;
    const double best = fastest_by_hand(recipe, 8, memory, taken);
    const LayoutPlan plan = search_layouts(recipe, 8, memory, kSpeeds, 1000);
    EXPECT_GT(taken, 20U);
    EXPECT_EQ(plan.taken, taken);
    ASSERT_EQ(plan.fastest.size(), plan.fitting);
    ASSERT_GT(plan.fitting, 0U);
    EXPECT_EQ(plan.fastest[0].estimate.step_seconds, best);
    for (std::size_t i = 0; i < plan.fastest.size(); ++i) {
      EXPECT_LE(static_cast<double>(plan.fastest[i].estimate.memory_bytes()), memory);
      if (i > 0) {
        EXPECT_LE(plan.fastest[i - 1].estimate.step_seconds, plan.fastest[i].estimate.step_seconds);
      }
    }
    EXPECT_EQ(plan.fitting == plan.taken, memory == 1e12);
  }
}

TEST(LayoutSearch, SaysWhatTakesTheLeastWhereNothingFits) {
  const LayoutPlan plan = search_layouts(searched_recipe(), 4, 1, kSpeeds);
  EXPECT_EQ(plan.fitting, 0U);
  EXPECT_TRUE(plan.fastest.empty());
  ASSERT_TRUE(plan.least.has_value());
  const LayoutPlan all = search_layouts(searched_recipe(), 4, 0, kSpeeds, 1000);
  for (const PlannedLayout& planned : all.fastest)
    EXPECT_GE(planned.estimate.memory_bytes(), plan.least->estimate.memory_bytes());
}

TEST(LayoutSearch, SaysWhyARecipeTakesNone) {
  const std::string said =
      testing::error_of([] { search_layouts(searched_recipe(), 1024, 0, kSpeeds); });
  EXPECT_TRUE(said.starts_with("the recipe takes no layout of 1024 ranks: ")) << said;
  testing::expect_says(said, {"train.batch_sequences = 8"});
}

}  // namespace
}  // namespace penstock
