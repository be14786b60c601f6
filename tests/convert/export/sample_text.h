// A text file for tests that measure an export on a text.
#pragma once

#include <string>

#include "penstock/base/atomic_files.h"
#include "penstock/base/file_system.h"
#include "tests/base/temp_directory.h"

namespace penstock {

/// 20,000 printable characters that do not repeat soon.
inline std::string text_file(const testing::TempDirectory& temp) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += static_cast<char>(33 + i * 7919 % 104729 % 94);
  const auto path = temp.path() / "text";
  write_file_atomically(real_file_system(), path, text);
  return path.string();
}

}  // namespace penstock
