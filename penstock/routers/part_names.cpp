#include "penstock/routers/part_names.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/routers/registry.h"

namespace penstock {
namespace {

constexpr PartKind kKinds[] = {PartKind::method, PartKind::scorer, PartKind::selector,
                               PartKind::balancer};

std::vector<std::string> names_of(PartKind kind) {
  switch (kind) {
    case PartKind::method:
      return method_registry().names();
    case PartKind::scorer:
      return scorer_registry().names();
    case PartKind::selector:
      return selector_registry().names();
    case PartKind::balancer:
      return balancer_registry().names();
  }
  return {};
}

bool is_of(const std::string& name, PartKind kind) {
  return std::ranges::count(names_of(kind), name) > 0;
}

/// The nearest name of any kind; "" if no name is near. If several names are equally near, one of
/// `kind` comes first.
std::string nearest_of_any_kind(const std::string& name, PartKind kind) {
  std::vector<std::string> names = names_of(kind);
  for (const PartKind other : kKinds) {
    const auto more = names_of(other);
    names.insert(names.end(), more.begin(), more.end());
  }
  return nearest_name(name, names);
}

/// The line of a recipe that sets a name of that kind.
std::string line_for(const std::string& name, PartKind kind) {
  if (kind == PartKind::balancer) return concat("model.router.balancers = [\"", name, "\"]");
  return concat("model.router.", word(kind), " = \"", name, "\"");
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

/// How the name is given in place of `key`: ": write ..."; "" where the options that hold `key`
/// have no place for it.
std::string remedy(const std::string& name, PartKind kind, const std::string& key) {
  if (!key.starts_with("options.")) return ": write " + line_for(name, kind);
  return kind == PartKind::scorer ? ": give options.scorer " + name : "";
}

/// "'relu' is a selector: write ..."; "" for a name of no kind.
/// @param key  the place where the name does not belong
std::string where_it_belongs(const std::string& name, const std::string& key) {
  std::string out, last;
  for (const PartKind kind : kKinds)
    if (is_of(name, kind)) {
      last = remedy(name, kind, key);
      out += concat(out.empty() ? "" : "; ", "'", name, "' is a ", word(kind), last);
    }
  const auto methods = methods_with(name);
  if (!out.empty() && !methods.empty() && !method_registry().contains(name))
    out += concat(last.empty() ? ": give" : ", or", " a method that has it: ", listed(methods));
  return out;
}

void check_kind(const std::string& name, PartKind kind, const std::string& key) {
  if (is_of(name, kind)) return;
  const std::string belongs = where_it_belongs(name, key);
  PENSTOCK_CHECK(belongs.empty(), key, ": ", belongs);
  const std::string nearest = nearest_of_any_kind(name, kind);
  if (nearest.empty() || is_of(nearest, kind)) return;  // the registry's error says that
  fail(key, ": unknown ", word(kind), " '", name, "'; did you mean '", nearest, "'? ",
       where_it_belongs(nearest, key));
}

}  // namespace

std::vector<std::string> methods_with(const std::string& part) {
  std::vector<std::string> out;
  for (const auto& [name, method] : method_registry().entries())
    if (method.scorer == part || method.selector == part ||
        std::ranges::find(method.balancers, part) != method.balancers.end())
      out.push_back(name);
  return out;
}

const Method& method_named(const std::string& name, std::string_view key) {
  const std::string place(key);
  check_kind(name, PartKind::method, place);
  return method_registry().at(name, place);
}

void fail_unknown_name(const std::string& name, const std::string& key) {
  const std::string nearest = nearest_of_any_kind(name, PartKind::method);
  fail(key, ": '", name, "' is neither a method nor a part of a router",
       nearest.empty() ? "" : "; did you mean '" + nearest + "'?",
       " (`penstock routers` lists them all)");
}

void check_part_name(const std::string& name, PartKind kind, const std::string& key) {
  check_kind(name, kind, key);
  switch (kind) {
    case PartKind::method:
      method_registry().at(name, key);
      break;
    case PartKind::scorer:
      scorer_registry().at(name, key);
      break;
    case PartKind::selector:
      selector_registry().at(name, key);
      break;
    case PartKind::balancer:
      balancer_registry().at(name, key);
      break;
  }
}

}  // namespace penstock
