// How byte-level vocabularies spell bytes, so that every piece can be printed.
#pragma once

#include <array>
#include <string>

namespace penstock {

/// The printable spelling of each byte in GPT-2's byte-level BPE, [byte]. A byte that is printable
/// in Latin-1 is spelled as that character; the other 68 get the code points from U+0100 on, in
/// order.
std::array<std::string, 256> printable_bytes();

}  // namespace penstock
