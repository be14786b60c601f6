// SentencePiece's spelling of a byte piece: "<0x0A>".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// U+2581, which stands for a space inside pieces.
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

inline std::string byte_piece(std::size_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4 & 15] + kDigits[byte & 15] + '>';
}

/// The byte that the piece spells, or -1.
inline int piece_byte(std::string_view piece) {
  const auto digit = [&](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return -1;
  const int high = digit(piece[3]), low = digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace penstock
