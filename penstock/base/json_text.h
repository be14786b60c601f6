// JSON as text. Bytes that are not UTF-8, such as those of a path, become U+FFFD.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock {

/// The value in one line, or over several lines with `indent` spaces a level.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// For files that people read and that lie in version control: the value over several lines,
/// indented by one space, with a newline at the end; an array without objects or arrays inside is
/// on one line. Numbers read back to the same bits.
std::string readable_text(const nlohmann::json& value);

}  // namespace penstock
