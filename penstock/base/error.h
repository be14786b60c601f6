// Errors: a user's mistake throws penstock::Error, a bug fails an assertion. Nothing here prints or
// exits; cli/main.cpp catches the errors.
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>

namespace penstock {

/// A mistake in the input. The message says what is wrong, where, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A bug in Penstock itself.
class AssertionError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Joins the parts with operator<<.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  ((out << parts), ...);
  return out.str();
}

/// Throws Error with the joined parts.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(concat(parts...));
}

[[noreturn]] void assertion_failed(const char* condition, const std::string& message,
                                   std::source_location where = std::source_location::current());

}  // namespace penstock

/// Throws Error with the other arguments as message if the condition, which a caller or a file can
/// break, is false.
#define PENSTOCK_CHECK(condition, ...) \
  do {                                 \
    if (!(condition)) [[unlikely]]     \
      ::penstock::fail(__VA_ARGS__);   \
  } while (false)

/// Throws AssertionError if the condition, which only a bug can break, is false.
#define PENSTOCK_ASSERT(condition, ...)                                                            \
  do {                                                                                             \
    if (!(condition)) [[unlikely]]                                                                 \
      ::penstock::assertion_failed(#condition, ::penstock::concat("" __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
