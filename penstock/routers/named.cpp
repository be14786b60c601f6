#include "penstock/routers/named.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {
namespace {

bool has_part(const std::string& name, const std::string& kind) {
  return (kind == "scorer" && scorer_registry().contains(name)) ||
         (kind == "selector" && selector_registry().contains(name)) ||
         (kind == "balancer" && balancer_registry().contains(name));
}

/// The line of a recipe that takes a name of that kind.
std::string line_for(const std::string& name, const std::string& kind) {
  if (kind == "balancer") return concat("model.router.balancers = [\"", name, "\"]");
  return concat("model.router.", kind, " = \"", name, "\"");
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

/// "'relu' is a selector: write ..."; "" for a name of no kind.
std::string where_it_belongs(const std::string& name) {
  std::string out;
  if (method_registry().contains(name))
    out = concat("'", name, "' is a method: write model.router.method = \"", name, "\"");
  for (const char* kind : {"scorer", "selector", "balancer"})
    if (has_part(name, kind))
      out += concat(out.empty() ? "" : "; ", "'", name, "' is a ", kind, ": write ",
                    line_for(name, kind));
  const auto methods = methods_with(name);
  if (!out.empty() && !methods.empty() && !method_registry().contains(name))
    out += concat(", or a method that has it: ", listed(methods));
  return out;
}

void check_kind(bool found, const std::string& name, const std::string& key) {
  if (found) return;
  const std::string belongs = where_it_belongs(name);
  PENSTOCK_CHECK(belongs.empty(), key, ": ", belongs);
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

const Method& method_named(const std::string& name, const std::string& key) {
  check_kind(method_registry().contains(name), name, key);
  return method_registry().at(name, key);
}

void fail_unknown_name(const std::string& name, const std::string& key) {
  std::vector<std::string> names = method_registry().names();
  for (const auto& parts :
       {scorer_registry().names(), selector_registry().names(), balancer_registry().names()})
    names.insert(names.end(), parts.begin(), parts.end());
  const std::string nearest = nearest_name(name, names);
  fail(key, ": '", name, "' is neither a method nor a part of a router",
       nearest.empty() ? "" : "; did you mean '" + nearest + "'?",
       " (`penstock routers` lists them all)");
}

void check_part_name(const std::string& name, const std::string& kind, const std::string& key) {
  check_kind(has_part(name, kind), name, key);
  if (kind == "scorer") scorer_registry().at(name, key);
  if (kind == "selector") selector_registry().at(name, key);
  if (kind == "balancer") balancer_registry().at(name, key);
}

}  // namespace penstock
