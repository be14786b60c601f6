// Reads a number from a text that must contain only the number.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace penstock {

/// The number that the whole text spells, as std::from_chars reads it: without a leading '+' or
/// white space. Nothing for other text and for a number that T cannot hold.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace penstock
