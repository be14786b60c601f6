// Whether a model can write texts: not if its router looks at later tokens. It also has the text
// that explains this to somebody who measures such a model's loss.
#pragma once

#include <string>
#include <string_view>

#include "penstock/routers/traits.h"

namespace penstock {

/// Why a text cannot be written with a router that is not causal; one sentence without a full stop.
inline constexpr std::string_view kNeedsLaterTokens =
    "where a token goes depends on tokens after it, which a text that is being written does not "
    "have yet";

/// "method 'm' is not causal: CONSEQUENCE". It adds that thresholds would make it causal, if they
/// would.
std::string not_causal_text(const std::string& method, const RouterTraits& traits,
                            std::string_view consequence);

/// Throws Error with that text if a model with these traits cannot write texts.
void check_generates(const std::string& method, const RouterTraits& traits);

}  // namespace penstock
