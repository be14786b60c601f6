// The weights of a router's losses: the options that may change when training goes on from a model,
// and advice for a loss that is too large. The parts define the losses.
#pragma once

#include <string>
#include <vector>

#include "penstock/routers/router_config.h"

namespace penstock {

/// The options of `part` that its list of fields marks as coefficients. The part may be of any
/// kind. An unknown part has none.
std::vector<std::string> coefficients(const std::string& part);

/// The coefficients of all parts of a router, as keys of a recipe:
/// "model.router.z-loss.coefficient".
std::vector<std::string> coefficient_keys(const RouterConfig& router);

/// The router with all options written out. Its coefficients are those that `asked` has for the
/// same parts.
RouterConfig with_coefficients(const RouterConfig& router, const RouterConfig& asked);

/// Whether the part adds a loss of the router's logits that falls when the logits shrink.
bool acts_on_logits(const std::string& part);

/// Advice for a part's loss that is too large: the keys to lower and, for a loss of the logits,
/// smaller logits.
std::string remedy_for_loss(const std::string& part);

}  // namespace penstock
