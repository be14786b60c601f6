#include "penstock/data/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "penstock/base/error.h"
#include "penstock/data/utf8.h"

namespace penstock {
namespace {

utf8proc_option_t normal_form_options(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

/// Whether the character is a letter in a circle or square. Such symbols are Alphabetic although
/// their category is So. Categories identify all other letters.
bool is_enclosed_letter(utf8proc_int32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

}  // namespace

bool is_word_character(std::string_view character) {
  utf8proc_int32_t c = -1;
  const auto bytes = reinterpret_cast<const utf8proc_uint8_t*>(character.data());
  const auto size = static_cast<utf8proc_ssize_t>(character.size());
  if (utf8proc_iterate(bytes, size, &c) != size || c < 0) return false;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return is_enclosed_letter(c) || c == 0x200c || c == 0x200d;  // the joiners
  }
}

std::string normal_form(std::string_view text, NormalForm form) {
  // ASCII text is the same in every form.
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, find_invalid_utf8(text));
    utf8proc_uint8_t* made = nullptr;
    const auto length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                     static_cast<utf8proc_ssize_t>(valid.size()), &made, normal_form_options(form));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
    PENSTOCK_CHECK(length >= 0, "the text cannot be normalised: ", utf8proc_errmsg(length));
    out.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(length));
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace penstock
