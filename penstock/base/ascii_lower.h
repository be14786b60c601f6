// The lower case of ASCII letters, in any locale. tasks/text.h has that of all of Unicode.
#pragma once

namespace penstock {

constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace penstock
