// Writes JSON for files that people read and keep under version control.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock {

/// The value over several lines, indented by one space, with a newline at the end. An array without
/// objects or arrays inside is on one line. Reading the text gives the same bits of each number.
/// Bytes that are not UTF-8 become U+FFFD.
std::string readable_text(const nlohmann::json& value);

}  // namespace penstock
