#include "penstock/routers/resolve.h"

#include <algorithm>
#include <set>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/routers/compatible.h"
#include "penstock/routers/part_names.h"
#include "penstock/routers/registry.h"

namespace penstock {
namespace {

/// Whether the node is an empty table, such as a template's table of a part whose keys are all
/// commented out.
bool sets_nothing(const ConfigNode& node) {
  if (!node.is_table()) return node.empty();
  return std::ranges::all_of(node.table(),
                             [](const auto& entry) { return sets_nothing(entry.second); });
}

std::string at_origin(const ConfigNode& node) {
  const std::string origin = origin_of(node);
  return origin.empty() ? "" : origin + ": ";
}

/// Throws Error if the config sets options of a method without a router.
void check_sets_nothing(const RouterConfig& config, const ResolvedRouter& router) {
  PENSTOCK_CHECK(router.balancers.empty(), "model.router.balancers: method '", config.method,
                 "' has no router to balance; choose another method, or a scorer and a selector");
  for (const auto& [name, node] : config.parts)
    if (!sets_nothing(node))
      fail(at_origin(node), "model.router.", name, ": method '", config.method,
           "' has no parts to set options of");
}

void check_parts(const RouterConfig& config, const ResolvedRouter& router) {
  PENSTOCK_CHECK(!router.scorer.empty() && !router.selector.empty(), "model.router: method '",
                 config.method, "' has no ", router.scorer.empty() ? "scorer" : "selector",
                 "; name one");
  check_part_name(router.scorer, PartKind::scorer, "model.router.scorer");
  check_part_name(router.selector, PartKind::selector, "model.router.selector");
  for (const auto& balancer : router.balancers)
    check_part_name(balancer, PartKind::balancer, "model.router.balancers");
  const std::string reason = compatible(router.scorer, router.selector, router.balancers);
  PENSTOCK_CHECK(reason.empty(), "model.router: ", reason);
}

/// Throws Error for a table of options that belongs to no part in use.
void check_option_tables(const RouterConfig& config, const ResolvedRouter& router) {
  std::set<std::string> used{router.scorer, router.selector};
  used.insert(router.balancers.begin(), router.balancers.end());
  for (const auto& [name, node] : config.parts) {
    if (used.contains(name) || (known_part(name) && sets_nothing(node))) continue;
    const std::string nearest = nearest_name(name, {used.begin(), used.end()});
    fail(at_origin(node), "model.router.", name, ": ",
         known_part(name) ? "this part is not in use" : "unknown key",
         !known_part(name) && !nearest.empty() ? "; did you mean '" + nearest + "'?" : "",
         " (parts in use: ", joined(used), ")");
  }
}

/// Joins each part's options: the config's override the method's, which override the defaults.
void complete_options(const RouterConfig& config, const Method& method, ResolvedRouter& router) {
  const auto complete = [&](const auto& registry, const std::string& part) {
    ConfigNode options{ConfigNode::Table{}};
    if (const auto it = method.options.find(part); it != method.options.end())
      options.merge(it->second);
    if (const auto it = config.parts.find(part); it != config.parts.end())
      options.merge(it->second);
    router.options[part] = registry.at(part).complete(options);
  };
  complete(scorer_registry(), router.scorer);
  complete(selector_registry(), router.selector);
  for (const auto& balancer : router.balancers) complete(balancer_registry(), balancer);
}

/// The traits of all parts together, under their options.
RouterTraits traits_of(const ResolvedRouter& router) {
  const auto under_options = [&](const auto& registry, const std::string& part) {
    return registry.at(part).traits_under(router.options.at(part));
  };
  const SelectorTraits selects = under_options(selector_registry(), router.selector);
  std::vector<BalancerTraits> balancing;
  for (const auto& balancer : router.balancers) {
    balancing.push_back(under_options(balancer_registry(), balancer));
    PENSTOCK_CHECK(
        !balancing.back().by_sequence || !selects.drops, "model.router.", balancer,
        ".scope = \"sequence\": selector '", router.selector,
        "' counts what is requested of its experts over a micro-batch; take another scope");
  }
  const RouterTraits traits =
      combined(under_options(scorer_registry(), router.scorer), selects, balancing);
  for (std::size_t i = 0; i < balancing.size(); ++i)
    PENSTOCK_CHECK(!balancing[i].needs_matrix || traits.foldable, "model.router.",
                   router.balancers[i], ".start = \"target\": scorer '", router.scorer,
                   "' is not one matrix, so how far its first logits spread is not known; take "
                   "\"dense\"");
  return traits;
}

}  // namespace

void check_k(double k, double experts, const std::string& k_key, const std::string& experts_key) {
  PENSTOCK_CHECK(k > 0, k_key, " must be above 0");
  PENSTOCK_CHECK(k <= experts, k_key, " = ", k, " is above ", experts_key, " = ", experts);
}

ResolvedRouter resolve(const RouterConfig& config) {
  const Method& method = method_named(config.method, "model.router.method");
  ResolvedRouter router;
  router.scorer = config.scorer.empty() ? method.scorer : config.scorer;
  router.selector = config.selector.empty() ? method.selector : config.selector;
  router.balancers = config.balancers.value_or(method.balancers);
  if (router.scorer.empty() && router.selector.empty()) {
    check_sets_nothing(config, router);
    return router;
  }
  check_parts(config, router);
  check_option_tables(config, router);
  complete_options(config, method, router);
  router.traits = traits_of(router);
  return router;
}

void check_options(const ResolvedRouter& router, const RouterShape& shape) {
  const auto check = [&](const auto& registry, const std::string& part) {
    registry.at(part).check(shape, router.options.at(part));
  };
  check(scorer_registry(), router.scorer);
  check(selector_registry(), router.selector);
  for (const auto& balancer : router.balancers) check(balancer_registry(), balancer);
}

}  // namespace penstock
