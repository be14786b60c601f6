// Writes recipes as commented TOML for a user to begin from. Keys, defaults and help come from the
// config structs. Trains nothing and reads no file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/routers/router_config.h"

namespace penstock {

/// Values of keys by dotted path: {"model.d_model", 256}.
using KeyValues = std::map<std::string, ConfigNode::Value>;

/// A recipe for the method with every key, the options of the method's parts included. Each key has
/// its help above it. The keys that most people change first are active. The other keys are
/// commented out with '#', at their defaults. read_recipe() can read the text as it is, and
/// removing any '#' does not change its meaning. Throws Error for an unknown method.
/// @param values  replace the template's own values; these keys are active
/// @param about   sentences for the beginning, in place of those that explain a template
std::string recipe_template(const std::string& method, const KeyValues& values = {},
                            const std::vector<std::string>& about = {});

/// A recipe with these keys alone, each with its help above it.
/// @param about  sentences for the beginning
std::string short_recipe(const KeyValues& values, const std::vector<std::string>& about);

/// A short recipe around the router: vocabulary, experts, the router with every option of its
/// parts, and the corpus. Other keys keep their defaults.
std::string router_recipe(const RouterConfig& router);

/// An example router of eight experts for a method or a part. For a part it uses a method with that
/// part, or other parts that fit it. Its k is large enough for the gates to learn. Throws Error if
/// `name` is neither a method nor a part.
RouterConfig example_router(const std::string& name);

/// The same for a part that no method has. Scorer, selector and balancers are chosen by their
/// traits.
RouterConfig example_by_parts(const std::string& part);

}  // namespace penstock
