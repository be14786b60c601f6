// Reads a list of numbers such as "1,2,4".
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {

/// The numbers between the commas of the text. Throws Error that begins with `key` for text of
/// another form, for a number that `fits` refuses, and for a number that comes twice.
/// @param form  the right form, for the error: "whole numbers with commas between"
template <class Number, class Fits>
std::vector<Number> parse_number_list(const std::string& text, const std::string& key,
                                      const std::string& form, const Fits& fits) {
  std::vector<Number> out;
  const char *at = text.data(), *const end = text.data() + text.size();
  while (true) {
    Number value{};
    const auto [next, error] = std::from_chars(at, end, value);
    PENSTOCK_CHECK(error == std::errc() && (next == end || *next == ',') && fits(value), key, " '",
                   text, "': give ", form);
    PENSTOCK_CHECK(std::ranges::find(out, value) == out.end(), key, " '", text, "': ", value,
                   " comes twice");
    out.push_back(value);
    if (next == end) return out;
    at = next + 1;
  }
}

}  // namespace penstock
