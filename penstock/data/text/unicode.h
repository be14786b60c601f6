// Unicode's normal forms, and walking through text character by character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// The text in the normal form; bytes that are not UTF-8 stay as they are.
/// Source: Unicode Standard Annex #15, through utf8proc.
std::string normal_form(std::string_view text, NormalForm form);

/// Whether the character (of one, in UTF-8) is part of words: a letter, mark, digit, letter number,
/// connector or joiner. Source: Unicode Technical Standard #18, annex C (\w).
bool is_word_character(std::string_view character);

/// Bytes of the character that `text` (not empty) begins with, by its first byte and what follows;
/// 1 for one that begins none.
inline std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead >= 0xf5 || length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i)
    if ((text[i] & 0xc0) != 0x80) return 1;
  return length;
}

/// Every `from` becomes `to`.
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
