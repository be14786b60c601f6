// The type of a token's id, which is all that tables of pieces and merges know of tokenizers.
#pragma once

#include <cstdint>

namespace penstock {

using TokenId = std::int32_t;

}  // namespace penstock
