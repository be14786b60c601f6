// Whether a model can write texts: not under a router that looks ahead. What to say of one, also to
// who measures its loss.
#pragma once

#include <string>
#include <string_view>

#include "penstock/routers/traits.h"

namespace penstock {

/// Why a text cannot be written under such a router; one sentence without a full stop.
inline constexpr std::string_view kNeedsLaterTokens =
    "where a token goes depends on tokens after it, which a text that is being written does not "
    "have yet";

/// "method 'm' is not causal: CONSEQUENCE", and whether thresholds would make it so.
std::string not_causal_text(const std::string& method, const RouterTraits& traits,
                            std::string_view consequence);

/// Throws Error, which says so, where a model with these traits cannot write texts.
void check_writes(const std::string& method, const RouterTraits& traits);

}  // namespace penstock
