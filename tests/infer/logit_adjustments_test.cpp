// Penalties and biases of logits, against numbers worked by hand.
#include "penstock/infer/logit_adjustments.h"

#include <gtest/gtest.h>

#include <limits>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Of tokens 0 to 4. The prompt is 0 3 0, the text is 1 1 3.
void expect_adjusted(const LogitAdjustments& adjustments, const std::vector<float>& expected) {
  const std::vector<float> logits{2, 1, -1, -2, 0.5};
  const std::vector<TokenId> prompt{0, 3, 0}, text{1, 1, 3};
  const std::vector<float> out = adjusted_logits(logits, adjustments, prompt, text);
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_FLOAT_EQ(out[i], expected[i]) << i;
}

TEST(LogitAdjustments, ByHand) {
  expect_adjusted({}, {2, 1, -1, -2, 0.5});
  // Of the text alone: token 1 twice, token 3 once.
  expect_adjusted({.frequency_penalty = 0.5}, {2, 0, -1, -2.5, 0.5});
  expect_adjusted({.presence_penalty = 0.5}, {2, 0.5, -1, -2.5, 0.5});
  expect_adjusted({.frequency_penalty = -0.25, .presence_penalty = -1}, {2, 2.5, -1, -0.75, 0.5});
  // Of prompt and text: tokens 0, 1 and 3.
  expect_adjusted({.repetition_penalty = 2}, {1, 0.5, -1, -4, 0.5});
  expect_adjusted({.repetition_penalty = 0.5}, {4, 2, -1, -1, 0.5});
  expect_adjusted({.bias = {{2, 100}, {0, -3.5}}}, {-1.5, 1, 99, -2, 0.5});
  // The repetition penalty is that of the model's logit, before the sums.
  expect_adjusted({.repetition_penalty = 2,
                   .frequency_penalty = 0.5,
                   .presence_penalty = 0.25,
                   .bias = {{1, 3}, {3, 1}}},
                  {1, 2.25, -1, -3.75, 0.5});
}

TEST(LogitAdjustments, ATokenWithoutALogitHasNone) {
  const std::vector<TokenId> prompt{7}, text{2, -1};
  EXPECT_EQ(adjusted_logits(std::vector<float>{1, 2}, {.repetition_penalty = 2}, prompt, text),
            (std::vector<float>{1, 2}));
}

TEST(LogitAdjustments, AnInfiniteLogitStaysSo) {
  const std::vector<TokenId> text{0};
  const auto out = adjusted_logits(
      std::vector<float>{-kInfinity, 0},
      {.repetition_penalty = 1.5, .frequency_penalty = -2, .bias = {{0, 100}}}, {}, text);
  EXPECT_EQ(out, (std::vector<float>{-kInfinity, 0}));
}

TEST(LogitAdjustments, NoneIsTheDefault) {
  EXPECT_TRUE(LogitAdjustments().none());
  EXPECT_FALSE((LogitAdjustments{.repetition_penalty = 1.1}.none()));
  EXPECT_FALSE((LogitAdjustments{.frequency_penalty = -1}.none()));
  EXPECT_FALSE((LogitAdjustments{.presence_penalty = 1}.none()));
  EXPECT_FALSE((LogitAdjustments{.bias = {{0, 0}}}.none()));
}

TEST(LogitAdjustments, WhatCannotBeIsAnError) {
  const double nan = std::nan("");
  EXPECT_NO_THROW(check(LogitAdjustments{.bias = {{4, -100}}}, 5));
  EXPECT_THROW(check(LogitAdjustments{.bias = {{5, 1}}}, 5), Error);
  EXPECT_THROW(check(LogitAdjustments{.bias = {{-1, 1}}}, 5), Error);
  EXPECT_THROW(check(LogitAdjustments{.bias = {{1, nan}}}, 5), Error);
  for (const double penalty : {0.0, -1.0, nan, double(kInfinity)})
    EXPECT_THROW(check(LogitAdjustments{.repetition_penalty = penalty}, 5), Error) << penalty;
  EXPECT_THROW(check(LogitAdjustments{.frequency_penalty = nan}, 5), Error);
  EXPECT_THROW(check(LogitAdjustments{.presence_penalty = double(kInfinity)}, 5), Error);
}

}  // namespace
}  // namespace penstock
