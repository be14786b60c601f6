// JSON as text for files that people read and that lie in version control.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock {

/// The value over several lines, indented by one space, with a newline at the end; an array without
/// objects or arrays inside is on one line. Numbers read back to the same bits. Bytes that are not
/// UTF-8 become U+FFFD.
std::string readable_text(const nlohmann::json& value);

}  // namespace penstock
