// The escape sequences of roff within a line of text.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// The plain text of a line: named characters (\(em, \[uXXXX], \-, \&) become UTF-8; fonts, sizes,
/// movements, comments and unknown names are dropped. Source: groff(7), groff_char(7).
std::string roff_text(std::string_view line);

}  // namespace penstock
