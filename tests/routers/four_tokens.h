// The logits that formulas.py uses, and helpers that pass them to parts as a router does.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "tests/routers/parts.h"

namespace penstock::testing {

/// Logits of four tokens for four experts.
inline at::Tensor four_logits() {
  return matrix({{1.0, 0.5, -0.3, 0.2},
                 {-0.7, 0.4, 0.9, 0.1},
                 {0.3, -1.2, 0.8, 0.6},
                 {2.0, -0.5, 0.0, -1.0}});
}
inline const RouterShape kTwoOfFour{.d_model = 4, .experts = 4, .k = 2};
inline const RouterShape kOneOfFour{.d_model = 4, .experts = 4, .k = 1};
inline const RoutingContext kTraining{.training = true};

inline void expect_matrix(const at::Tensor& actual,
                          const std::vector<std::vector<double>>& expected) {
  EXPECT_LT(farthest(actual, matrix(expected)), 1e-12) << actual;
}

/// The selector's plan, completed as the router does before it calls balancers.
inline Plan plan_for(Selector& selector, const at::Tensor& z,
                     const RoutingContext& context = kTraining) {
  Plan plan = selector.select({.logits = z}, context);
  plan.k = selector.nominal_k(context);
  return plan;
}

/// The loss of the named balancer on the plan of the selector `select`.
inline double loss_of(const std::string& name, const RouterShape& shape, const Options& options,
                      const std::string& select) {
  const auto parts = selector(select, shape);
  const at::Tensor z = four_logits();
  return balancer(name, shape, options)
      ->balance({.logits = z}, plan_for(*parts, z), kTraining)
      .loss.item<double>();
}

}  // namespace penstock::testing
