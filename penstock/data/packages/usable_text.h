// Decides which files of a machine and of packages are text worth training on.
#pragma once

#include <cstddef>
#include <string_view>

#include "penstock/data/utf8.h"

namespace penstock {

/// A smaller file (in bytes) has no running text.
inline constexpr std::size_t kSmallestText = 200;
/// A larger file of code is a generated table.
inline constexpr std::size_t kLargestCode = 128 << 10;

/// Whether the text is long enough, is UTF-8 and has no NUL byte.
inline bool is_usable_text(std::string_view text) {
  return text.size() >= kSmallestText && find_invalid_utf8(text) == text.npos &&
         text.find('\0') == text.npos;
}

/// Whether the text itself says that a program generated it.
inline bool is_generated(std::string_view text) { return text.find("@generated") != text.npos; }

}  // namespace penstock
