// Tests that run once for each unit of bf16 products.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "penstock/base/fields.h"
#include "penstock/ops/machine/product_unit.h"

namespace penstock::testing {

/// Chooses the test's unit. Skips the test where this processor does not have the unit.
class WithProductUnit : public ::testing::TestWithParam<ops::ProductUnit> {
 protected:
  void SetUp() override {
    if (!ops::available(GetParam())) GTEST_SKIP() << "this processor has no " << word(GetParam());
    ops::choose_product_unit(GetParam());
  }
  void TearDown() override { ops::choose_product_unit(std::nullopt); }
};

inline const auto kProductUnits =
    ::testing::Values(ops::ProductUnit::avx512, ops::ProductUnit::amx,
                      ops::ProductUnit::emulated_avx512, ops::ProductUnit::emulated_amx);

inline std::string unit_name(const ::testing::TestParamInfo<ops::ProductUnit>& info) {
  std::string out(word(info.param));
  std::ranges::replace_if(
      out, [](char c) { return c == '-' || c == ' '; }, '_');
  return out;
}

}  // namespace penstock::testing
