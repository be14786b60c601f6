#include "penstock/cli/arguments/utf8_words.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "penstock/base/error.h"
#include "penstock/data/utf8.h"

namespace penstock {
namespace {

/// The text with bytes above 0x7f as \xHH.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += static_cast<unsigned char>(c) < 0x80
               ? std::string(1, c)
               : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

void check(std::string_view what, std::string_view text) {
  PENSTOCK_CHECK(
      find_invalid_utf8(text) == std::string_view::npos, what, " '", escaped(text),
      "' is not UTF-8, and runs write paths and texts as UTF-8; a file can be renamed or linked "
      "to, and a text can come from a file");
}

}  // namespace

void check_words_are_utf8(std::span<const char* const> words) {
  bool help = false;
  for (const std::string_view word : words) {
    check("the word", word);
    help |= word == "--help" || word == "-h";
  }
  if (help) return;
  std::error_code none;
  check("the current folder", std::filesystem::current_path(none).string());
}

}  // namespace penstock
