// Names of methods and parts as a user gives them: a name of the wrong kind is told where it
// belongs, an unknown one the nearest.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/routers/router.h"

namespace penstock {

/// The method of that name. Throws Error, opened by `key` (where the name was given), for another
/// name; where that is a part's, it says which keys take it.
const Method& method_named(const std::string& name, const std::string& key);

/// The kinds of things that have a name: methods, and parts of each kind.
enum class PartKind { method, scorer, selector, balancer };
constexpr std::array<std::string_view, 4> words(PartKind) {
  return {"method", "scorer", "selector", "balancer"};
}

/// Throws Error, opened by `key`, where the name is of nothing of that kind.
void check_part_name(const std::string& name, PartKind kind, const std::string& key);

/// Throws Error, opened by `key`, for a name that is neither a method's nor a part's, with the
/// nearest of all these names.
[[noreturn]] void fail_unknown_name(const std::string& name, const std::string& key);

/// The methods that have this part, in order of their names.
std::vector<std::string> methods_with(const std::string& part);

}  // namespace penstock
