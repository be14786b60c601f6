// Cuts long texts into several documents, so that every split can take parts of a book or a
// dictionary.
#pragma once

#include <string_view>
#include <vector>

namespace penstock {

/// Texts up to this length stay whole.
inline constexpr std::size_t kLongestDocument = 64 << 10;

/// Cuts the text into pieces that cover it, of 16 to 32 KB each. A piece ends after a blank line if
/// there is one in its second half, else before a line that is not indented (the next entry of a
/// dictionary), else before any line, else anywhere between characters.
std::vector<std::string_view> cut_text(std::string_view text);

}  // namespace penstock
