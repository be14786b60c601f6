// Writes JSON as text for other programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock {

/// The value in one line, or over several lines with `indent` spaces a level. Bytes that are not
/// UTF-8, such as those of a path, become U+FFFD.
/// @param value  nlohmann::json or nlohmann::ordered_json
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace penstock
