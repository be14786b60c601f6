#include "penstock/models/generation_check.h"

#include "penstock/base/error.h"

namespace penstock {

std::string not_causal_text(const std::string& method, const RouterTraits& traits,
                            std::string_view consequence) {
  return concat("method '", method, "' is not causal: ", consequence,
                traits.takes_thresholds
                    ? "; thresholds would make it so, which this model was trained without or "
                      "which are not used"
                    : "");
}

void check_generates(const std::string& method, const RouterTraits& traits) {
  PENSTOCK_CHECK(traits.causal, not_causal_text(method, traits, kNeedsLaterTokens));
}

}  // namespace penstock
