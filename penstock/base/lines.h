// The lines of a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace penstock {

/// Calls visit(line, number) for each line of the text, with the line's end ("\n") where it has
/// one. Numbers begin with 1. An empty text has no lines.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    visit(text.substr(0, length), number);
    text.remove_prefix(length);
  }
}

/// The line without its end, "\n" or "\r\n".
inline std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace penstock
