// The escape sequences of roff within a line of text.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// The line as it reads: characters by name (\(em, \[uXXXX], \-, \&) as UTF-8, fonts, sizes,
/// movements and a comment left out, unknown names dropped. Source: groff(7), groff_char(7).
std::string roff_text(std::string_view line);

}  // namespace penstock
