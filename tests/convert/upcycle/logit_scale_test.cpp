// The factor that gives a router's logits a wanted entropy, by hand, and entropies that it cannot
// reach.
#include "penstock/convert/upcycle/logit_scale.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"

namespace penstock {
namespace {

at::Tensor rows(const std::vector<std::vector<double>>& values) {
  std::vector<at::Tensor> out;
  for (const auto& row : values) out.push_back(torch::tensor(row, at::kDouble));
  return torch::stack(out);
}

/// p = (0.9, 0.1) has the entropy 0.9·0.105361 + 0.1·2.302585 = 0.325083. The second token's p is
/// even, with ln 2 = 0.693147.
TEST(LogitScale, EntropyByHand) {
  EXPECT_NEAR(mean_entropy(rows({{std::log(9.0), 0}})), 0.325083, 1e-6);
  EXPECT_NEAR(mean_entropy(rows({{std::log(9.0), 0}, {4, 4}})), (0.325083 + 0.693147) / 2, 1e-6);
  EXPECT_NEAR(mean_entropy(rows({{1e4, 0, -1e4}})), 0, 1e-12);  // a certain choice has entropy 0
}

/// Logits (s, 0) need the factor ln 9 / s for p = (0.9, 0.1).
TEST(LogitScale, FactorByHand) {
  for (const double scale : {1e-4, 1.0, 136.0})
    EXPECT_NEAR(factor_for_entropy(rows({{scale, 0}}), 0.325083) * scale, std::log(9.0), 1e-4);
}

TEST(LogitScale, WhatNoFactorReachesIsRefused) {
  EXPECT_THROW(factor_for_entropy(rows({{1, 0}}), std::log(2.0)), Error);
  EXPECT_THROW(factor_for_entropy(rows({{1, 0}}), 0), Error);
  EXPECT_THROW(factor_for_entropy(rows({{3, 3, 3}}), 0.5), Error);  // all equal
  EXPECT_THROW(factor_for_entropy(rows({{1, 1, 0}}), 0.5), Error);  // two tied: never below ln 2
}

}  // namespace
}  // namespace penstock
