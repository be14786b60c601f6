// The type of a token's id, for code that needs nothing else of tokenizers.
#pragma once

#include <cstdint>

namespace penstock {

using TokenId = std::int32_t;

}  // namespace penstock
