#include "penstock/data/text/printable_bytes.h"

namespace penstock {

std::array<std::string, 256> printable_bytes() {
  std::array<std::string, 256> names;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                           (byte >= 0xae && byte <= 0xff);
    const unsigned code = printable ? byte : next++;
    if (code < 0x80) {
      names[byte] = static_cast<char>(code);
    } else {
      names[byte] = {static_cast<char>(0xc0 | (code >> 6)),
                     static_cast<char>(0x80 | (code & 0x3f))};
    }
  }
  return names;
}

}  // namespace penstock
