// Checking that bytes are UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock {

/// Offset of the first byte that does not begin a valid sequence (RFC 3629: no overlong forms,
/// surrogates or code points above U+10FFFF), or npos if the whole text is valid.
inline std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int more = lead >= 0xc2 && lead < 0xe0   ? 1
                     : lead >= 0xe0 && lead < 0xf0 ? 2
                     : lead >= 0xf0 && lead < 0xf5 ? 3
                                                   : 0;
    if (more == 0) return i;
    // The second byte is where overlong forms, surrogates and too large values show.
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (int k = 2; k <= more; ++k)
      if ((byte(i + static_cast<std::size_t>(k)) & 0xc0) != 0x80) return i;
    i += static_cast<std::size_t>(more) + 1;
  }
  return std::string_view::npos;
}

}  // namespace penstock
