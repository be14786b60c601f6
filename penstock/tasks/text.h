// Text functions that count and trim as in Python, the harnesses' language: by Unicode characters
// and Unicode white space. Only the templates of tasks use them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tasks {

/// The number of characters (code points) of UTF-8 text.
std::size_t character_count(std::string_view text);
/// Removes the first, or the last, `count` characters.
std::string_view without_first(std::string_view text, std::size_t count);
std::string_view without_last(std::string_view text, std::size_t count);

/// Removes Unicode white space at the start, or the end.
std::string_view left_stripped(std::string_view text);
std::string_view right_stripped(std::string_view text);
/// Splits the text at Unicode white space.
std::vector<std::string> words(std::string_view text);

/// The first character in upper case, the others in lower case. Each character stays one character.
std::string capitalized(std::string_view text);
std::string lowered(std::string_view text);
/// Whether the UTF-8 character (exactly one) is a letter, a number or "_".
bool is_letter_or_digit(std::string_view character);
/// The first character in lower case, the others unchanged.
std::string uncapitalized(std::string_view text);

}  // namespace penstock::tasks
