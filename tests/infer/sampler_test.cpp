// Candidates against probabilities worked by hand, and draws against their frequencies.
#include "penstock/infer/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

/// Logarithms of 1, 2, 4 and 1. At temperature 1 the probabilities are 1/8, 2/8, 4/8, 1/8.
const std::vector<float> kLogits{0.0f, std::log(2.0f), std::log(4.0f), 0.0f};

void expect(const SamplingOptions& options, const std::vector<Candidate>& expected) {
  const auto list = candidates(kLogits, options);
  ASSERT_EQ(list.size(), expected.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].token, expected[i].token) << i;
    EXPECT_NEAR(list[i].probability, expected[i].probability, 1e-7) << i;
  }
}

TEST(Sampler, ProbabilitiesByHand) {
  expect({.temperature = 1}, {{2, 0.5}, {1, 0.25}, {0, 0.125}, {3, 0.125}});
  // Half the temperature squares the odds: 16, 4, 1 and 1 of 22.
  expect({.temperature = 0.5}, {{2, 16.0 / 22}, {1, 4.0 / 22}, {0, 1.0 / 22}, {3, 1.0 / 22}});
  // Twice the temperature takes the square roots of the odds.
  const double total = 2 + std::sqrt(2.0) + 2;
  expect({.temperature = 2},
         {{2, 2 / total}, {1, std::sqrt(2.0) / total}, {0, 1 / total}, {3, 1 / total}});
}

TEST(Sampler, TopKAndTopPByHand) {
  expect({.temperature = 1, .top_k = 2}, {{2, 4.0 / 6}, {1, 2.0 / 6}});
  expect({.temperature = 1, .top_k = 3},
         {{2, 4.0 / 7}, {1, 2.0 / 7}, {0, 1.0 / 7}});  // ties are ordered by id
  expect({.temperature = 1, .top_k = 9}, {{2, 0.5}, {1, 0.25}, {0, 0.125}, {3, 0.125}});
  expect({.temperature = 1, .top_p = 0.49}, {{2, 1}});
  expect({.temperature = 1, .top_p = 0.51}, {{2, 4.0 / 6}, {1, 2.0 / 6}});
  expect({.temperature = 1, .top_p = 0.8}, {{2, 4.0 / 7}, {1, 2.0 / 7}, {0, 1.0 / 7}});
  expect({.temperature = 1, .top_p = 1e-9}, {{2, 1}});  // at least one token stays
  // Top-p applies after the temperature, to the tokens that top-k keeps: 16 / 20 ≥ 0.75.
  expect({.temperature = 0.5, .top_k = 2, .top_p = 0.75}, {{2, 1}});
}

TEST(Sampler, MinPByHand) {
  // The likeliest has 1/2, the next 1/4 and the last two 1/8.
  expect({.temperature = 1, .min_p = 0.24}, {{2, 0.5}, {1, 0.25}, {0, 0.125}, {3, 0.125}});
  expect({.temperature = 1, .min_p = 0.26}, {{2, 4.0 / 6}, {1, 2.0 / 6}});
  expect({.temperature = 1, .min_p = 0.51}, {{2, 1}});
  expect({.temperature = 1, .min_p = 1}, {{2, 1}});
  // The odds after the temperature count: 16, 4, 1 and 1.
  expect({.temperature = 0.5, .min_p = 0.2}, {{2, 16.0 / 20}, {1, 4.0 / 20}});
  // With the other cuts, a token stays if it passes all of them.
  expect({.temperature = 1, .top_k = 3, .min_p = 0.26}, {{2, 4.0 / 6}, {1, 2.0 / 6}});
  expect({.temperature = 1, .top_p = 0.8, .min_p = 0.26}, {{2, 4.0 / 6}, {1, 2.0 / 6}});
  expect({.temperature = 1, .top_p = 0.51, .min_p = 0.2}, {{2, 4.0 / 6}, {1, 2.0 / 6}});
  expect({.temperature = 1, .top_p = 0.49, .min_p = 0.2}, {{2, 1}});
  expect({.min_p = 0.5}, {{2, 1}});
}

TEST(Sampler, TopPKeepsTheSameWhateverTheTail) {
  // A tail of many improbable tokens must not change which tokens top-p keeps.
  std::vector<float> logits(5000, std::log(1e-4f));
  logits[17] = 0;
  logits[4999] = std::log(0.5f);
  // The shares of 1 and 0.5 in 1 + 0.5 + 4998e-4 = 1.9998.
  EXPECT_EQ(candidates(logits, {.temperature = 1, .top_p = 0.7}).size(), 2u);
  EXPECT_EQ(candidates(logits, {.temperature = 1, .top_p = 0.45}).size(), 1u);
  const auto more = candidates(logits, {.temperature = 1, .top_p = 0.8});
  EXPECT_NEAR(static_cast<double>(more.size()), 2 + (0.8 * 1.9998 - 1.5) / 1e-4, 1.5);
}

TEST(Sampler, ZeroTemperatureTakesTheHighestAndTheLowestIdOfEquals) {
  expect({}, {{2, 1}});
  EXPECT_EQ(candidates(std::vector<float>{1, 3, 3}, {})[0].token, 1);
  EXPECT_EQ(sample(kLogits, {.seed = 5}, 3, 9), 2);
}

TEST(Sampler, DrawsHaveTheirFrequenciesAndRepeat) {
  const SamplingOptions options{.temperature = 1, .seed = 3};
  std::map<TokenId, int> counts;
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i)
    ++counts[sample(kLogits, options, 0, static_cast<std::uint64_t>(i))];
  // The tolerance is four standard deviations of a binomial distribution.
  for (const auto& [token, p] :
       std::map<TokenId, double>{{0, 0.125}, {1, 0.25}, {2, 0.5}, {3, 0.125}})
    EXPECT_NEAR(counts[token] / double(kDraws), p, 4 * std::sqrt(p * (1 - p) / kDraws)) << token;
  const auto text = [&](std::uint64_t seed, std::uint64_t stream) {
    std::vector<TokenId> out;
    for (std::uint64_t i = 0; i < 50; ++i)
      out.push_back(sample(kLogits, {.temperature = 1, .seed = seed}, stream, i));
    return out;
  };
  EXPECT_EQ(text(3, 1), text(3, 1));
  EXPECT_NE(text(3, 1), text(4, 1));
  EXPECT_NE(text(3, 1), text(3, 2));
}

TEST(Sampler, DrawsWalkThroughTheCandidatesInOrder) {
  std::vector<float> logits(3000);
  for (std::size_t i = 0; i < logits.size(); ++i)  // many are equal
    logits[i] = static_cast<float>(random_below(random_bits(9, 0, i), 40)) / 8;
  for (const double temperature : {0.0, 0.3, 2.0})
    for (const double top_p : {1.0, 0.9})
      for (const auto& [top_k, min_p] : std::vector<std::pair<std::int64_t, double>>{
               {0, 0}, {5, 0}, {700, 0}, {0, 0.3}, {700, 0.3}}) {
        const SamplingOptions options{
            .temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p, .seed = 6};
        const std::vector<Candidate> list = candidates(logits, options);
        for (std::uint64_t i = 0; i < 200; ++i) {
          const double draw = static_cast<double>(random_bits(6, 2, i) >> 11) * 0x1p-53;
          double sum = 0;
          std::size_t at = 0;
          while (at + 1 < list.size() && draw >= (sum += list[at].probability)) ++at;
          EXPECT_EQ(sample(logits, options, 2, i), list[at].token);
        }
      }
}

TEST(Sampler, WhatCannotBeIsAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THROW(candidates(std::vector<float>{0, nan}, {}), LogitsError);
  EXPECT_THROW(candidates(std::vector<float>{-infinity, -infinity}, {}), LogitsError);
  EXPECT_THROW(candidates(std::vector<float>{infinity, 0}, {}), Error);
  EXPECT_EQ(candidates(std::vector<float>{-infinity, 0}, {.temperature = 1})[0].probability, 1);
  EXPECT_THROW(check({.temperature = -1}), Error);
  EXPECT_THROW(check({.temperature = nan}), Error);
  EXPECT_THROW(check({.top_k = -1}), Error);
  EXPECT_THROW(check({.top_p = 0}), Error);
  EXPECT_THROW(check({.top_p = 1.1}), Error);
  EXPECT_THROW(check({.top_p = nan}), Error);
  for (const double min_p : {-0.1, 1.1, static_cast<double>(nan)})
    EXPECT_THROW(check({.min_p = min_p}), Error) << min_p;
  EXPECT_NO_THROW(check({.temperature = 0.7, .top_k = 40, .top_p = 1}));
}

}  // namespace
}  // namespace penstock
