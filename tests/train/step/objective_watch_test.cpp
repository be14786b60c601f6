// The warnings that a run's training follows something other than the cross-entropy.
#include "penstock/train/step/objective_watch.h"

#include <gtest/gtest.h>

#include "tests/base/error_of.h"

namespace penstock {
namespace {

TEST(ObjectiveWatch, SaysOnceThatAnAuxiliaryLossOutweighsTheCrossEntropy) {
  ObjectiveWatch watch({.clip = 1});
  const WatchedStep sound{.loss = 1.6, .auxiliary_losses = {{"z-loss", 1.6}, {"importance", 0.1}}};
  EXPECT_TRUE(watch.see(sound).empty());
  WatchedStep step{.loss = 1.62, .auxiliary_losses = {{"load-balance", 0.04}, {"z-loss", 62.1}}};
  const auto first = watch.see(step);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].name, "auxiliary loss");
  testing::expect_says(first[0].finding, {"z-loss is 62.1"});
  testing::expect_says(first[0].finding, {"1.62"});
  testing::expect_says(first[0].remedy, {"model.router.z-loss.coefficient = 0"});
  testing::expect_says(first[0].remedy, {"--start-entropy"});
  EXPECT_TRUE(watch.see(step).empty());
  step.auxiliary_losses["load-balance"] = 5;  // another loss
  const auto second = watch.see(step);
  ASSERT_EQ(second.size(), 1U);
  testing::expect_says(second[0].remedy, {"model.router.load-balance.coefficient"});
}

TEST(ObjectiveWatch, SaysOnceThatClippingTakesNearlyAll) {
  ObjectiveWatch watch({.clip = 0.5});
  const WatchedStep usual{.loss = 2, .gradient_norm = 5}, clipped{.loss = 2, .gradient_norm = 5.1};
  // 19 of any 50 steps, for many steps.
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 19; ++i) EXPECT_TRUE(watch.see(clipped).empty());
    for (int i = 0; i < 31; ++i) EXPECT_TRUE(watch.see(usual).empty());
  }
  for (int i = 0; i < 19; ++i) EXPECT_TRUE(watch.see(clipped).empty());
  const auto said = watch.see(clipped);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].name, "clipping");
  testing::expect_says(said[0].finding, {"in 20 of the last 50 steps"});
  testing::expect_says(said[0].remedy, {"train.clip = 5.1"});
  for (int i = 0; i < 99; ++i) EXPECT_TRUE(watch.see(clipped).empty());
}

TEST(ObjectiveWatch, ClippingIsLaidToTheAuxiliaryLossThatCausesIt) {
  ObjectiveWatch watch({.clip = 1});
  const WatchedStep step{.loss = 3.7, .auxiliary_losses = {{"z-loss", 62.1}}, .gradient_norm = 181};
  EXPECT_EQ(watch.see(step).size(), 1U);
  for (int i = 1; i < 19; ++i) EXPECT_TRUE(watch.see(step).empty());
  const auto said = watch.see(step);  // the twentieth step
  ASSERT_EQ(said.size(), 1U);
  testing::expect_says(said[0].finding, {"20 of the last 20 steps"});
  testing::expect_says(said[0].remedy, {"model.router.z-loss.coefficient"});
}

TEST(ObjectiveWatch, NamesTheSettingsOfFineTuning) {
  ObjectiveWatch watch({.clip = 0.5, .keys = "", .remedy = [](const std::string& part) {
                          return "leave " + part + " out";
                        }});
  const auto first = watch.see({.loss = 1, .auxiliary_losses = {{"z-loss", 2}}});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].remedy, "leave z-loss out");
  std::vector<RunWarning> said;
  for (int i = 0; i < 20; ++i) said = watch.see({.loss = 2, .gradient_norm = 5.1});
  ASSERT_EQ(said.size(), 1U);
  testing::expect_says(said[0].finding, {"above 10 times clip = 0.5"});
  EXPECT_EQ(said[0].remedy,
            "if such gradients are meant, clip = 5.1; otherwise a lower lr, or a longer "
            "warmup_steps");
}

TEST(ObjectiveWatch, SaysOnceThatASteeredRouterHasHardlyAnExpertOn) {
  ObjectiveWatch watch({.clip = 1, .steered_experts = 2});
  const WatchedStep dense{.loss = 2, .active_experts = 4}, half{.loss = 2, .active_experts = 1},
      few{.loss = 2, .active_experts = 0.99};
  // All experts, as ReMoE begins.
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(watch.see(dense).empty());
  for (int i = 0; i < 49; ++i) EXPECT_TRUE(watch.see(few).empty());
  EXPECT_TRUE(watch.see(half).empty());  // fewer than 50 steps in sequence
  for (int i = 0; i < 49; ++i) EXPECT_TRUE(watch.see(few).empty());
  const auto said = watch.see(few);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].name, "idle experts");
  testing::expect_says(said[0].finding, {"fewer than half of the 2 active experts"});
  testing::expect_says(said[0].finding, {"now 0.99"});
  testing::expect_says(said[0].remedy, {"train.lr"});
  for (int i = 0; i < 99; ++i) EXPECT_TRUE(watch.see(few).empty());
  ObjectiveWatch unsteered({.clip = 1});
  for (int i = 0; i < 99; ++i) EXPECT_TRUE(unsteered.see(few).empty());
}

TEST(ObjectiveWatch, WithoutClippingThereIsNothingToSayOfIt) {
  ObjectiveWatch watch({});
  for (int i = 0; i < 60; ++i) EXPECT_TRUE(watch.see({.loss = 1, .gradient_norm = 1e6}).empty());
}

}  // namespace
}  // namespace penstock
