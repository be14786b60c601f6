// The message of a rank's failure, for the tests of groups.
#pragma once

#include <exception>
#include <string>

namespace penstock::testing {

/// The failure's message; "nothing" without a failure.
inline std::string message_of(const std::exception_ptr& failure) {
  if (!failure) return "nothing";
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace penstock::testing
