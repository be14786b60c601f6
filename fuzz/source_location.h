// std::source_location for clang 14, which lacks the builtin that libstdc++'s version needs.
#pragma once

#include <cstdint>

namespace std {

struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           const char* function = __builtin_FUNCTION(),
                                           std::uint32_t line = __builtin_LINE()) noexcept {
    return {file, function, line};
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr const char* function_name() const noexcept { return function_; }
  constexpr std::uint32_t line() const noexcept { return line_; }

  const char* file_ = "";
  const char* function_ = "";
  std::uint32_t line_ = 0;
};

}  // namespace std
