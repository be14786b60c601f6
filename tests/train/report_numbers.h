// The numbers of training steps as lists, for tests that compare trainings.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "penstock/train/step/step_report.h"

namespace penstock::testing {

/// Appends the report's losses, sparsity, number of tokens, loads and statistics.
inline void append_numbers(std::vector<double>& out, const StepReport& report) {
  out.insert(out.end(),
             {report.loss, report.total_loss, report.consistency.value_or(0), report.sparsity,
              report.active_experts, static_cast<double>(report.tokens)});
  for (const auto& layer : report.load) out.insert(out.end(), layer.begin(), layer.end());
  for (const auto* named : {&report.auxiliary_losses, &report.statistics})
    for (const auto& [name, value] : *named) out.push_back(value);
}

/// Expects equal lists up to `tolerance`, relative to the expected number or to `smallest` where
/// the number is smaller.
inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                        double tolerance, double smallest = 1) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * std::max(smallest, std::fabs(expected[i])))
        << "number " << i;
}

}  // namespace penstock::testing
