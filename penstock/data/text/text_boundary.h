// Places at which a text may be cut.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace penstock {

/// `position`, or the beginning of the next character if `position` is inside a character.
inline std::int64_t character_boundary(std::string_view text, std::int64_t position) {
  const auto inside = [&](std::int64_t at) {
    return at < std::ssize(text) && (text[static_cast<std::size_t>(at)] & 0xC0) == 0x80;
  };
  while (inside(position)) ++position;
  return position;
}

/// `position`, or the beginning of the next line if `position` is inside a line.
inline std::int64_t line_boundary(std::string_view text, std::int64_t position) {
  const auto at = static_cast<std::size_t>(position);
  if (at == 0 || at >= text.size() || text[at - 1] == '\n') return position;
  const auto newline = text.find('\n', at);
  return newline == text.npos ? std::ssize(text) : static_cast<std::int64_t>(newline) + 1;
}

}  // namespace penstock
