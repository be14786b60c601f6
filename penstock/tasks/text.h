// Text as the harnesses' own language counts and trims it: by Unicode characters and Unicode white
// space. For the templates of tasks alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tasks {

/// Characters (code points) of UTF-8 text.
std::size_t character_count(std::string_view text);
/// Without the first, or the last, `count` characters.
std::string_view without_first(std::string_view text, std::size_t count);
std::string_view without_last(std::string_view text, std::size_t count);

/// Without Unicode white space at the start, or the end.
std::string_view left_stripped(std::string_view text);
std::string_view right_stripped(std::string_view text);
/// What Unicode white space separates.
std::vector<std::string> words(std::string_view text);

/// The first character in upper case, the others in lower case (one character for one character).
std::string capitalized(std::string_view text);
std::string lowered(std::string_view text);
/// Whether the character (of one, in UTF-8) is a letter, a number or "_".
bool is_letter_or_digit(std::string_view character);
/// The first character in lower case, the others as they are.
std::string uncapitalized(std::string_view text);

}  // namespace penstock::tasks
