// A text file for tests that measure an export on a text.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/base/file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock::testing {

/// Text of printable characters with a long period.
inline std::int64_t text_byte(std::int64_t i) { return 33 + i * 7919 % 104729 % 94; }

/// The first `count` characters as tokens of a model over bytes. [count] i64
inline at::Tensor text_tokens(std::int64_t count) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 0; i < count; ++i) bytes.push_back(text_byte(i));
  return at::tensor(bytes, at::kLong);
}

/// Writes 20,000 characters.
inline std::string text_file(const TempDirectory& temp) {
  std::string text;
  for (std::int64_t i = 0; i < 20000; ++i) text += static_cast<char>(text_byte(i));
  const auto path = temp.path() / "text";
  write_file_atomically(real_file_system(), path, text);
  return path.string();
}

}  // namespace penstock::testing
