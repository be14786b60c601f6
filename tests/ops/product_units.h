// Tests that run once for each unit of bf16 products.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/product_unit.h"
#include "tests/ops/fast_path.h"

namespace penstock::testing {

/// The largest relative error of a rounding to bf16, which has eight bits.
constexpr double kRounding = 1.0 / 256;
/// The same for a product of two rounded factors.
constexpr double kTwoRoundings = 2 * kRounding + kRounding * kRounding;

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

/// Expects that `run` gives the same value and gradients, bit for bit, on the unit and on its
/// emulation. Skips the test where the processor lacks the unit.
inline void expect_bits_of_emulation(ops::ProductUnit unit, ops::ProductUnit emulation,
                                     const TensorFunction& run,
                                     const std::vector<at::Tensor>& inputs) {
  if (!ops::available(unit)) GTEST_SKIP() << "this processor has no " << word(unit);
  const auto by = [&](ops::ProductUnit chosen) {
    ops::choose_product_unit(chosen);
    const auto out = value_and_gradients(run, inputs, at::kFloat);
    ops::choose_product_unit(std::nullopt);
    return out;
  };
  const auto processor = by(unit), emulated = by(emulation);
  for (std::size_t i = 0; i < processor.size(); ++i)
    EXPECT_TRUE(processor[i].equal(emulated[i])) << i;
}

/// Expects the value and gradients of `run` to be within 1/256 of the reference's, by norm.
inline void expect_near_reference(const TensorFunction& run,
                                  const std::vector<at::Tensor>& inputs) {
  const auto found = value_and_gradients(run, inputs, at::kFloat);
  const ops::ReferenceOnly only;
  const auto reference = value_and_gradients(run, inputs, at::kFloat);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LT((found[i] - reference[i]).norm().item<double>(),
              reference[i].norm().item<double>() / 256 + 1e-6)
        << i;
}

}  // namespace penstock::testing
