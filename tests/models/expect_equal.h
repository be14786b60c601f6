// Compares tensors by name.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/formats/torch_safetensors.h"

namespace penstock::testing {

/// Expects the same names and the same bits.
inline void expect_equal(const TensorMap& found, const TensorMap& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(torch::equal(found.at(name), value)) << name;
  }
}

}  // namespace penstock::testing
