// Unicode's normal forms and character classes, and the length of UTF-8 characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// The text in the normal form; bytes that are not UTF-8 stay as they are.
/// Source: Unicode Standard Annex #15, through utf8proc.
std::string normal_form(std::string_view text, NormalForm form);

/// Whether the character (one, in UTF-8) can be part of a word: a letter, mark, digit, letter
/// number, connector or joiner. Source: Unicode Technical Standard #18, annex C (\w).
bool is_word_character(std::string_view character);

/// The number of bytes of the first character of `text`; 1 if the first byte does not begin a
/// character. REQUIRES: `text` is not empty.
inline std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead >= 0xf5 || length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i)
    if ((text[i] & 0xc0) != 0x80) return 1;
  return length;
}

/// The text with every `from` replaced by `to`.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const std::size_t at = from.empty() ? text.npos : text.find(from);
    out += text.substr(0, at);
    if (at == text.npos) return out;
    out += to;
    text.remove_prefix(at + from.size());
  }
}

}  // namespace penstock
