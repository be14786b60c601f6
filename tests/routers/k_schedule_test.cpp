// The schedule of k: the steps at which k changes in published runs, and in small runs by hand.
#include "penstock/routers/k_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"

namespace penstock {
namespace {

using Steps = std::vector<std::int64_t>;

std::int64_t k_at(const KSchedule& schedule, const RouterShape& shape, std::int64_t step,
                  std::int64_t total) {
  return scheduled_k(schedule, shape, {.step = step, .total_steps = total, .training = true});
}

/// The steps whose k differs from the k of the step before.
Steps switches(const KSchedule& schedule, const RouterShape& shape, std::int64_t total) {
  Steps out;
  std::int64_t before = k_at(schedule, shape, 0, total);
  for (std::int64_t step = 1; step <= total; ++step) {
    const std::int64_t now = k_at(schedule, shape, step, total);
    if (now != before) out.push_back(step);
    before = now;
  }
  return out;
}

const RouterShape kSixteen{.d_model = 4, .experts = 16, .k = 16};

TEST(KSchedule, LinearIncreaseSwitchesWhereThePublishedRunsDo) {
  EXPECT_EQ(switches({.kind = KScheduleKind::linear, .start = 8}, kSixteen, 400'000),
            (Steps{25'001, 75'000, 125'001, 175'000, 225'001, 275'000, 325'001, 375'000}));
}

TEST(KSchedule, CosineIncrease) {  // from formulas.py
  EXPECT_EQ(switches({.kind = KScheduleKind::cosine, .start = 8}, kSixteen, 1000),
            (Steps{227, 397, 518, 620, 712, 798, 880, 961}));
}

TEST(KSchedule, LinearAndCosineDecrease) {
  const RouterShape two{.d_model = 4, .experts = 16, .k = 2};
  // 4 − 2·s/8: 4 3.75 3.5 3.25 3 2.75 2.5 2.25 2. Halves round to even, so 4 + round(−0.5) = 4 and
  // 4 + round(−1.5) = 2.
  EXPECT_EQ(switches({.kind = KScheduleKind::linear, .start = 4}, two, 8), (Steps{3, 6}));
  // 2 + 2·cos(π·s/8): 4 3.85 3.41 2.77 2 at s = 0..4.
  EXPECT_EQ(switches({.kind = KScheduleKind::cosine, .start = 4}, two, 4), (Steps{2, 4}));
}

TEST(KSchedule, StepsHoldUntilTheirEnd) {
  const RouterShape one{.d_model = 4, .experts = 8, .k = 1};
  const KSchedule near_dense{.kind = KScheduleKind::steps, .values = {6}, .at = {100}};
  EXPECT_EQ(k_at(near_dense, one, 0, 1000), 6);
  EXPECT_EQ(k_at(near_dense, one, 99, 1000), 6);
  EXPECT_EQ(k_at(near_dense, one, 100, 1000), 1);
}

TEST(KSchedule, StepsWithoutEndsCutTheRunIntoEqualParts) {
  const KSchedule up{.kind = KScheduleKind::steps, .values = {1, 2, 4, 8}};
  EXPECT_EQ(switches(up, kSixteen, 50), (Steps{10, 20, 30, 40}));
  EXPECT_EQ(k_at(up, kSixteen, 0, 50), 1);
  EXPECT_EQ(k_at(up, kSixteen, 49, 50), 16);
}

TEST(KSchedule, HoldsTheFinalValueAfterItsLengthAndOutsideTraining) {
  const KSchedule linear{.kind = KScheduleKind::linear, .start = 8, .over = 10};
  EXPECT_EQ(k_at(linear, kSixteen, 0, 1000), 8);
  EXPECT_EQ(k_at(linear, kSixteen, 10, 1000), 16);
  EXPECT_EQ(k_at(linear, kSixteen, 500, 1000), 16);
  EXPECT_EQ(scheduled_k(linear, kSixteen, {.step = 0, .total_steps = 1000, .training = false}), 16);
}

Steps drawn_over(const KSchedule& schedule, const RouterShape& shape, std::int64_t steps) {
  Steps out;
  for (std::int64_t step = 0; step < steps; ++step)
    out.push_back(k_at(schedule, shape, step, steps));
  return out;
}

TEST(KSchedule, DrawsOneOfItsValuesAtEachStep) {  // from formulas.py
  KSchedule schedule{.kind = KScheduleKind::drawn, .values = {1, 2, 4, 8, 16}};
  EXPECT_EQ(drawn_over(schedule, kSixteen, 16),
            (Steps{1, 16, 16, 16, 2, 2, 8, 4, 1, 16, 4, 16, 1, 2, 8, 1}));
  schedule.seed = 7;
  EXPECT_EQ(drawn_over(schedule, kSixteen, 16),
            (Steps{1, 16, 4, 2, 16, 16, 2, 1, 16, 2, 1, 2, 8, 16, 1, 2}));
}

TEST(KSchedule, ADrawKnowsOfSeedAndStepAlone) {
  const KSchedule schedule{.kind = KScheduleKind::drawn, .values = {1, 2, 4, 8, 16}, .seed = 3};
  RouterShape last = kSixteen;
  last.layer = 3;
  last.layers = 4;
  EXPECT_EQ(drawn_over(schedule, last, 40), drawn_over(schedule, kSixteen, 40));
  EXPECT_EQ(scheduled_k(schedule, kSixteen, {.step = 5, .total_steps = 40, .training = true}),
            scheduled_k(schedule, kSixteen,
                        {.step = 5, .total_steps = 0, .training = true, .rank = 1, .layer = 2}));
}

TEST(KSchedule, DrawsEachValueAsOftenAsItStands) {
  const KSchedule schedule{.kind = KScheduleKind::drawn, .values = {2, 16, 16, 16}};
  const Steps all = drawn_over(schedule, kSixteen, 4000);
  // Four standard deviations of a binomial count: 4·sqrt(4000 · 0.25 · 0.75).
  EXPECT_NEAR(static_cast<double>(std::ranges::count(all, 2)), 1000, 110);
  EXPECT_EQ(std::ranges::count(all, 2) + std::ranges::count(all, 16), 4000);
}

TEST(KSchedule, NothingIsDrawnOutsideTrainingOrWhereKIsAskedFor) {
  const KSchedule schedule{.kind = KScheduleKind::drawn, .values = {1, 2}};
  EXPECT_EQ(scheduled_k(schedule, kSixteen, {.step = 0, .total_steps = 9}), 16);
  EXPECT_EQ(scheduled_k(schedule, kSixteen, {.step = 0, .training = true, .k = 5}), 5);
}

TEST(KSchedule, GranularityMultipliesEveryValue) {
  const RouterShape fine{.d_model = 4, .experts = 32, .k = 4, .granularity = 4};
  const KSchedule near_dense{.kind = KScheduleKind::steps, .values = {6}, .at = {100}};
  EXPECT_EQ(k_at(near_dense, fine, 0, 1000), 24);
  EXPECT_EQ(k_at(near_dense, fine, 100, 1000), 4);
  EXPECT_EQ(k_at({.kind = KScheduleKind::drawn, .values = {6}}, fine, 3, 1000), 24);
}

TEST(KSchedule, AFractionalKBeforeGranularityIsFineWithoutASchedule) {
  const RouterShape half{.d_model = 4, .experts = 16, .k = 1, .granularity = 2};
  EXPECT_EQ(k_at({}, half, 0, 10), 1);
  EXPECT_NO_THROW(check_schedule({}, half));
  EXPECT_THROW(check_schedule({.kind = KScheduleKind::linear, .start = 4}, half), Error);
}

TEST(KSchedule, RefusesContradictions) {
  const RouterShape eight{.d_model = 4, .experts = 8, .k = 1};
  for (const KSchedule& wrong :
       {KSchedule{.kind = KScheduleKind::steps},
        KSchedule{.kind = KScheduleKind::steps, .values = {9}},
        KSchedule{.kind = KScheduleKind::steps, .values = {4, 2}, .at = {5}},
        KSchedule{.kind = KScheduleKind::steps, .values = {4, 2}, .at = {5, 3}},
        KSchedule{.kind = KScheduleKind::linear, .start = 9},
        KSchedule{.kind = KScheduleKind::constant, .values = {2}},
        KSchedule{.kind = KScheduleKind::drawn},
        KSchedule{.kind = KScheduleKind::drawn, .values = {9}},
        KSchedule{.kind = KScheduleKind::drawn, .values = {4}, .at = {5}}})
    EXPECT_THROW(check_schedule(wrong, eight), Error);
  EXPECT_NO_THROW(
      check_schedule({.kind = KScheduleKind::steps, .values = {4, 2}, .at = {5, 30}}, eight));
}

}  // namespace
}  // namespace penstock
