// The weights of a router's losses: the options that may change when training goes on from a model,
// and what to do where such a loss is too large. What the losses are is the parts' own.
#pragma once

#include <string>
#include <vector>

#include "penstock/routers/router.h"

namespace penstock {

/// The options of a part (of any kind, by its name) that its list of fields marks as coefficients;
/// none for an unknown part.
std::vector<std::string> coefficients(const std::string& part);

/// The same of all parts of a router, as keys of a recipe: "model.router.z-loss.coefficient".
std::vector<std::string> coefficient_keys(const RouterConfig& router);

/// The router with the coefficients that `asked` has for the same parts, all options written out.
RouterConfig with_coefficients(const RouterConfig& router, const RouterConfig& asked);

/// Whether the part adds a loss of the router's logits, which smaller logits make smaller.
bool acts_on_logits(const std::string& part);

/// What to do where the loss that a part adds is too large: the keys to lower and, for a loss that
/// acts on the logits, smaller ones.
std::string remedy_for_loss(const std::string& part);

}  // namespace penstock
