// Recipes as commented TOML, for a user to begin from: keys, defaults and help are those that the
// config structs declare. Trains nothing and reads no file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/routers/router.h"

namespace penstock {

/// Values of keys by dotted path: {"model.d_model", 256}.
using KeyValues = std::map<std::string, ConfigNode::Value>;

/// Every key of a recipe for that method. The keys that most people change first have a value; the
/// others stand behind a '#' at their defaults, options of the method's parts included, each with
/// its help above it. Reads back through read_recipe() as it is, and means the same with any of the
/// '#' taken away. Throws Error for an unknown method.
/// @param values  stand in place of the template's own, each with a value
/// @param about   sentences for its beginning, in place of those on templates
std::string recipe_template(const std::string& method, const KeyValues& values = {},
                            const std::vector<std::string>& about = {});

/// These keys alone, each with its help above it.
/// @param about  sentences for its beginning
std::string short_recipe(const KeyValues& values, const std::vector<std::string>& about);

/// A short recipe around that router: experts, the router with every option of its parts, and the
/// corpus; other keys are left to their defaults.
std::string router_recipe(const RouterConfig& router);

/// A router of eight experts to show a method or a part with: the method itself, or a method that
/// has the part, or parts that go with it. k is one that its gates can learn from. Throws Error for
/// a name that is neither.
RouterConfig example_router(const std::string& name);

/// The same for a part that no method has: a scorer, a selector and balancers, by their traits.
RouterConfig example_by_parts(const std::string& part);

}  // namespace penstock
