// Checks whether a model can generate text. It cannot if its router looks at later tokens. Also
// makes the text that explains this beside such a model's loss.
#pragma once

#include <string>
#include <string_view>

#include "penstock/routers/traits.h"

namespace penstock {

/// Why a model whose router is not causal cannot generate text; one sentence without a full stop.
inline constexpr std::string_view kNeedsLaterTokens =
    "where a token goes depends on tokens after it, which a text that is being written does not "
    "have yet";

/// "method 'm' is not causal: CONSEQUENCE". It adds that thresholds would make it causal, if they
/// would.
std::string not_causal_text(const std::string& method, const RouterTraits& traits,
                            std::string_view consequence);

/// Throws Error with not_causal_text() if a model with these traits cannot generate text.
void check_generates(const std::string& method, const RouterTraits& traits);

}  // namespace penstock
