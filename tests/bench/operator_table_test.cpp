// The table's arithmetic, by hand.
#include "penstock/bench/operator_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::bench {
namespace {

ProfiledStep step(double seconds, double product_seconds) {
  ProfiledStep out{.seconds = seconds};
  out.operators["linear/a"] = {.calls = 2, .seconds = product_seconds, .flops = 6e9, .bytes = 1e6};
  out.operators["norm/a"] = {.calls = 1, .seconds = 0.1, .flops = 0, .bytes = 5e8};
  out.scopes["select"] = {.calls = 3, .seconds = 0.05};
  return out;
}

TEST(OperatorTable, TakesTheMiddleHalfOfTheSteps) {
  // The middle half of four steps: the fastest and the slowest step are left out.
  const OperatorTable table =
      make_table({step(9.0, 8.0), step(1.0, 0.5), step(0.6, 0.2), step(1.2, 0.7)});
  EXPECT_DOUBLE_EQ(table.seconds, 1.1);
  ASSERT_EQ(table.operators.size(), 2u);
  EXPECT_EQ(table.operators[0].name, "linear/a");
  EXPECT_DOUBLE_EQ(table.operators[0].seconds, 0.6);
  EXPECT_DOUBLE_EQ(table.operators[0].calls, 2);
  EXPECT_DOUBLE_EQ(table.flops(), 6e9);
  EXPECT_NEAR(table.outside_seconds(), 1.1 - 0.7, 1e-12);
  EXPECT_NEAR(table.outside_share(), 0.4 / 1.1, 1e-12);
}

TEST(OperatorTable, ARooflineIsTheLongerOfProductsAndTraffic) {
  const MachineLimits machine{.threads = 1, .peak_flops = 2e10, .memory_bandwidth = 1e10};
  const OperatorTable table = make_table({step(1.0, 0.5)});
  EXPECT_DOUBLE_EQ(table.operators[0].ideal_seconds(machine), 0.3);   // 6e9 / 2e10 > 1e6 / 1e10
  EXPECT_DOUBLE_EQ(table.operators[1].ideal_seconds(machine), 0.05);  // 5e8 / 1e10
  EXPECT_DOUBLE_EQ(table.operators[0].lost_seconds(machine), 0.2);
}

TEST(OperatorTable, ProductsInBf16HaveTheirOwnPeak) {
  ProfiledStep mixed{.seconds = 1};
  mixed.operators["linear/a"] = {
      .calls = 2, .seconds = 0.5, .flops = 6e9, .bytes = 0, .bf16_flops = 4e9};
  const OperatorTable table = make_table({mixed});
  const MachineLimits two{.peak_flops = 2e10, .memory_bandwidth = 1e10, .peak_flops_bf16 = 4e10};
  EXPECT_DOUBLE_EQ(table.peak_seconds(two), 0.2);  // 2e9 / 2e10 + 4e9 / 4e10
  EXPECT_DOUBLE_EQ(table.operators[0].ideal_seconds(two), 0.2);
  EXPECT_DOUBLE_EQ(operators_json(table, two)[0]["share_of_peak"].get<double>(), 0.4);
  EXPECT_DOUBLE_EQ(table.peak_seconds({.peak_flops = 2e10, .memory_bandwidth = 1e10}), 0.3);
}

TEST(OperatorTable, ListsTheMostLostTimeFirst) {
  // The norm takes less time than the product, but loses more of it.
  const MachineLimits machine{.threads = 1, .peak_flops = 1.25e10, .memory_bandwidth = 1e10};
  const OperatorTable table = make_table({step(1.0, 0.5)});
  const auto rows = operators_json(table, machine);
  EXPECT_EQ(rows[0]["name"], "norm/a");
  EXPECT_NEAR(rows[0]["lost_seconds"].get<double>(), 0.05, 1e-12);
  EXPECT_NEAR(rows[1]["lost_seconds"].get<double>(), 0.02, 1e-12);
  EXPECT_NEAR(rows[1]["share_of_peak"].get<double>(), 6e9 / 0.5 / 1.25e10, 1e-12);
  EXPECT_NEAR(rows[1]["share"].get<double>(), 0.5, 1e-12);
  const auto outside = outside_json(table);
  EXPECT_EQ(outside[0]["name"], "select");
  EXPECT_EQ(outside[1]["name"], "rest");
  EXPECT_NEAR(outside[1]["seconds"].get<double>(), 1.0 - 0.6 - 0.05, 1e-12);
  const std::string text = table_text(table, machine);
  EXPECT_LT(text.find("norm/a"), text.find("linear/a"));
  EXPECT_LT(text.find("linear/a"), text.find("outside named operators"));
}

}  // namespace
}  // namespace penstock::bench
