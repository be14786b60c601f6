// Checks names of methods and parts that a user gives. The error for a name of the wrong kind says
// where it belongs; the error for an unknown name says the nearest one.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/routers/methods.h"

namespace penstock {

/// The method with the name. Throws Error for another name; the error begins with `key`, the place
/// of the name. If a part has the name, the error says which keys take it: those of a recipe, or
/// for a key `options.MEMBER` the member of the same options.
const Method& method_named(const std::string& name, std::string_view key);

/// The kinds of things that have a name: methods, and parts of each kind.
enum class PartKind { method, scorer, selector, balancer };
constexpr std::array<std::string_view, 4> words(PartKind) {
  return {"method", "scorer", "selector", "balancer"};
}

/// Throws Error, which begins with `key`, if nothing of the kind has the name.
void check_part_name(const std::string& name, PartKind kind, const std::string& key);

/// Throws Error, which begins with `key`, if neither a method nor a part has the name. The error
/// says the nearest name.
[[noreturn]] void fail_unknown_name(const std::string& name, const std::string& key);

/// The methods that use this part, in the order of their names.
std::vector<std::string> methods_with(const std::string& part);

}  // namespace penstock
