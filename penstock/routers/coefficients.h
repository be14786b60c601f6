// The weights of a router's losses: the options that may change when training goes on from a model,
// and what to do where such a loss is too large. The parts define the losses.
#pragma once

#include <string>
#include <vector>

#include "penstock/routers/router.h"

namespace penstock {

/// The options of the named part that its list of fields marks as coefficients. A part of any kind
/// may be named; an unknown part has none.
std::vector<std::string> coefficients(const std::string& part);

/// The same of all parts of a router, as keys of a recipe: "model.router.z-loss.coefficient".
std::vector<std::string> coefficient_keys(const RouterConfig& router);

/// The router with the coefficients of the same parts in `asked`, and all options written out.
RouterConfig with_coefficients(const RouterConfig& router, const RouterConfig& asked);

/// Whether the part adds a loss of the router's logits that falls when the logits shrink.
bool acts_on_logits(const std::string& part);

/// Advice for a part's loss that is too large: the keys to lower and, for a loss of the logits,
/// smaller logits.
std::string remedy_for_loss(const std::string& part);

}  // namespace penstock
