// The message of a call's Error, for the tests of messages.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>

#include "penstock/base/error.h"

namespace penstock::testing {

/// The message of the call's Error, or `none` if the call throws no Error.
template <class Call>
std::string error_or(const std::string& none, Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return none;
}

/// The message of the call's Error. Fails the test, at the caller's line, if no Error is thrown.
template <class Call>
std::string error_of(Call call, std::source_location where = std::source_location::current()) {
  return error_or("", [&] {
    call();
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << "no error";
  });
}

/// Expects the text to contain each part.
inline void expect_says(std::string_view text, std::initializer_list<std::string_view> parts,
                        std::source_location where = std::source_location::current()) {
  for (const auto part : parts)
    if (text.find(part) == text.npos)
      ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
          << "'" << part << "' is missing in: " << text;
}

/// Expects the call to throw an Error whose message contains each part.
template <class Call>
void expect_error(Call call, std::initializer_list<std::string_view> parts,
                  std::source_location where = std::source_location::current()) {
  expect_says(error_of(call, where), parts, where);
}

}  // namespace penstock::testing
