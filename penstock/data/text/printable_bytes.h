// How byte-level vocabularies spell bytes, so that every piece can be printed.
#pragma once

#include <array>
#include <string>

namespace penstock {

/// The printable stand-ins of GPT-2's byte-level BPE, [byte]: one that is printable Latin-1 stands
/// for itself, the other 68 take the code points from U+0100 on, in order.
std::array<std::string, 256> printable_bytes();

}  // namespace penstock
