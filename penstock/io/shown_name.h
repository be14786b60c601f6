// Makes names from files safe for error messages.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// A name from a file, made safe for one line of an error message: cut to 80 bytes, with '?' for
/// control characters.
inline std::string shown_name(std::string_view name) {
  std::string out;
  for (const unsigned char c : name.substr(0, 80)) out += c < 0x20 || c == 0x7f ? '?' : char(c);
  return name.size() > 80 ? out + "..." : out;
}

}  // namespace penstock
