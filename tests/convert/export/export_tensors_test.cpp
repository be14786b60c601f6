#include "penstock/convert/export/export_tensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>

#include "tests/base/error_of.h"

namespace penstock {
namespace {

std::string refusal(float number, ExportDtype dtype) {
  return testing::error_of([&] {
    ExportedNumbers(at::full({1, 2}, number, at::kFloat), dtype, "w");
  });
}

/// The largest number of BF16 is about 3.39e38, that of F16 65504.
TEST(ExportedNumbers, TheErrorNamesTypesThatHoldTheNumbers) {
  const std::string of_f16 = refusal(7e4f, ExportDtype::kF16);
  testing::expect_says(of_f16, {"'w'", "too large for f16", "take bf16 or f32"});
  const std::string of_bf16 = refusal(3.4e38f, ExportDtype::kBF16);
  testing::expect_says(of_bf16, {"'w'", "too large for bf16", "take f32"});
  testing::expect_says(refusal(3.4e38f, ExportDtype::kF16), {"too large for f16", "take f32"});
}

}  // namespace
}  // namespace penstock
