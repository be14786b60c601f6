#include "penstock/data/packages/cut_text.h"

#include <cstddef>

#include "penstock/data/text/text_boundary.h"

namespace penstock {
namespace {

constexpr std::size_t kPiece = 32 << 10;

/// The last line start in the second half of a piece for which fits(position of the newline before
/// it) is true; npos if there is none.
template <class Fits>
std::size_t last_line(std::string_view text, Fits fits) {
  for (std::size_t at = text.rfind('\n', kPiece - 1); at != text.npos && at >= kPiece / 2;
       at = text.rfind('\n', at - 1))
    if (at + 1 < text.size() && fits(at)) return at + 1;
  return text.npos;
}

std::size_t end_of_piece(std::string_view text) {
  const auto blank_before = [&](std::size_t at) { return text[at - 1] == '\n'; };
  const auto entry = [&](std::size_t at) {
    const char next = text[at + 1];
    return next != ' ' && next != '\t' && next != '\n';
  };
  std::size_t end = last_line(text, blank_before);
  if (end == text.npos) end = last_line(text, entry);
  if (end == text.npos) end = last_line(text, [](std::size_t) { return true; });
  if (end == text.npos) end = static_cast<std::size_t>(character_boundary(text, kPiece));
  return end;
}

}  // namespace

std::vector<std::string_view> cut_text(std::string_view text) {
  std::vector<std::string_view> out;
  if (text.size() > kLongestDocument)
    while (text.size() > kPiece) {
      const std::size_t end = end_of_piece(text);
      out.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
  if (!text.empty()) out.push_back(text);
  return out;
}

}  // namespace penstock
