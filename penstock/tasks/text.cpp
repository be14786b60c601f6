#include "penstock/tasks/text.h"

#include <utf8proc.h>

#include "penstock/data/text/unicode.h"

namespace penstock::tasks {
namespace {

utf8proc_int32_t code_point(std::string_view character) {
  utf8proc_int32_t out = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &out);
  return out;
}

void append(std::string& out, utf8proc_int32_t point) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(point, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, character_bytes(text));
}

/// The number of bytes of the last character of `text`. REQUIRES: `text` is not empty.
std::size_t last_character_bytes(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (text[begin] & 0xc0) == 0x80) --begin;
  return text.size() - begin;
}

/// Whether Python's str.isspace is true for the character: separators, and control characters that
/// separate.
bool is_space(std::string_view character) {
  const utf8proc_int32_t c = code_point(character);
  if (c < 0) return false;
  if ((c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

}  // namespace

std::size_t character_count(std::string_view text) {
  std::size_t out = 0;
  for (; !text.empty(); ++out) text.remove_prefix(character_bytes(text));
  return out;
}

std::string_view without_first(std::string_view text, std::size_t count) {
  for (; count > 0 && !text.empty(); --count) text.remove_prefix(character_bytes(text));
  return text;
}

std::string_view without_last(std::string_view text, std::size_t count) {
  for (; count > 0 && !text.empty(); --count) text.remove_suffix(last_character_bytes(text));
  return text;
}

std::string_view left_stripped(std::string_view text) {
  while (!text.empty() && is_space(first_character(text)))
    text.remove_prefix(character_bytes(text));
  return text;
}

std::string_view right_stripped(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = last_character_bytes(text);
    if (!is_space(text.substr(text.size() - bytes))) break;
    text.remove_suffix(bytes);
  }
  return text;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  for (text = left_stripped(text); !text.empty(); text = left_stripped(text)) {
    out.emplace_back();
    while (!text.empty() && !is_space(first_character(text))) {
      out.back() += first_character(text);
      text.remove_prefix(character_bytes(text));
    }
  }
  return out;
}

std::string capitalized(std::string_view text) {
  std::string out;
  for (bool first = true; !text.empty(); first = false) {
    const std::string_view character = first_character(text);
    const utf8proc_int32_t point = code_point(character);
    if (point < 0)
      out += character;
    else
      append(out, first ? utf8proc_totitle(point) : utf8proc_tolower(point));
    text.remove_prefix(character.size());
  }
  return out;
}

std::string lowered(std::string_view text) {
  std::string out;
  for (; !text.empty(); text.remove_prefix(character_bytes(text)))
    out += uncapitalized(first_character(text));
  return out;
}

bool is_letter_or_digit(std::string_view character) {
  const utf8proc_int32_t point = code_point(character);
  if (point < 0) return false;
  const utf8proc_category_t category = utf8proc_category(point);
  return point == '_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

std::string uncapitalized(std::string_view text) {
  std::string out;
  if (text.empty()) return out;
  const std::string_view first = first_character(text);
  const utf8proc_int32_t point = code_point(first);
  if (point < 0)
    out += first;
  else
    append(out, utf8proc_tolower(point));
  return out += text.substr(first.size());
}

}  // namespace penstock::tasks
