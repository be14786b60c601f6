// Removes the library's identifier from the message of a JSON parser's error.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace penstock {

/// "parse error at line 2, column 4: ...".
inline std::string json_error_text(const nlohmann::json::exception& error) {
  const std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error ..."
  const auto name = what.find("] ");
  return std::string(name == std::string_view::npos ? what : what.substr(name + 2));
}

}  // namespace penstock
