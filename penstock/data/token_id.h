// The type of a token's id. Tables of pieces and merges need nothing else of tokenizers.
#pragma once

#include <cstdint>

namespace penstock {

using TokenId = std::int32_t;

}  // namespace penstock
