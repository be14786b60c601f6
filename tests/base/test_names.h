// Names of test parameters in the form that GoogleTest accepts.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace penstock::testing {

/// GoogleTest accepts only letters, digits and underscores.
inline std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string out;
  for (const char c : info.param) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out;
}

}  // namespace penstock::testing
