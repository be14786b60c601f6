// From a recipe's router table to the parts in use and their complete options.
#include <algorithm>
#include <set>

#include "penstock/routers/named.h"
#include "penstock/routers/router.h"

namespace penstock {
namespace {

RouterTraits combine(const RouterTraits& a, const RouterTraits& b) {
  return {.causal = a.causal && b.causal,
          .order_matters = a.order_matters || b.order_matters,
          .stochastic = a.stochastic || b.stochastic,
          .needs_token_ids = a.needs_token_ids || b.needs_token_ids,
          .merges = b.merges,
          .trainable = a.trainable && b.trainable,
          .foldable = a.foldable,
          .has_k = b.has_k,
          .variable_active = b.variable_active,
          .even_loads = b.even_loads,
          .ignores_logits = b.ignores_logits,
          .takes_highest = b.takes_highest,
          .drops = b.drops,
          .unit_gates = b.unit_gates,
          .homogeneous_gates = b.homogeneous_gates,
          .no_logits = a.no_logits,
          .noisy = a.noisy,
          .forward_passes = std::max(a.forward_passes, b.forward_passes)};
}

bool known_part(const std::string& name) {
  return scorer_registry().contains(name) || selector_registry().contains(name) ||
         balancer_registry().contains(name);
}

/// An empty table, as a template has them for parts whose keys are all commented out.
bool sets_nothing(const ConfigNode& node) {
  if (!node.is_table()) return node.empty();
  return std::ranges::all_of(node.table(),
                             [](const auto& entry) { return sets_nothing(entry.second); });
}

std::string at_origin(const ConfigNode& node) {
  return node.origin().empty() ? "" : node.origin() + ": ";
}

}  // namespace

ResolvedRouter resolve(const RouterConfig& config) {
  const Method& method = method_named(config.method, "model.router.method");
  ResolvedRouter router;
  router.scorer = config.scorer.empty() ? method.scorer : config.scorer;
  router.selector = config.selector.empty() ? method.selector : config.selector;
  router.balancers = config.balancers.value_or(method.balancers);
  if (router.scorer.empty() && router.selector.empty()) {
    PENSTOCK_CHECK(router.balancers.empty(), "model.router.balancers: method '", config.method,
                   "' has no router to balance; choose another method, or a scorer and a selector");
    for (const auto& [name, node] : config.parts)
      if (!sets_nothing(node))
        fail(at_origin(node), "model.router.", name, ": method '", config.method,
             "' has no parts to set options of");
    return router;
  }
  PENSTOCK_CHECK(!router.scorer.empty() && !router.selector.empty(), "model.router: method '",
                 config.method, "' has no ", router.scorer.empty() ? "scorer" : "selector",
                 "; name one");

  check_part_name(router.scorer, "scorer", "model.router.scorer");
  check_part_name(router.selector, "selector", "model.router.selector");
  for (const auto& balancer : router.balancers)
    check_part_name(balancer, "balancer", "model.router.balancers");
  const std::string reason = compatible(router.scorer, router.selector, router.balancers);
  PENSTOCK_CHECK(reason.empty(), "model.router: ", reason);

  std::set<std::string> used{router.scorer, router.selector};
  used.insert(router.balancers.begin(), router.balancers.end());
  for (const auto& [name, node] : config.parts) {
    if (used.contains(name) || (known_part(name) && sets_nothing(node))) continue;
    std::string list;
    for (const auto& part : used) list += (list.empty() ? "" : ", ") + part;
    const std::string nearest = nearest_name(name, {used.begin(), used.end()});
    fail(at_origin(node), "model.router.", name, ": ",
         known_part(name) ? "this part is not in use" : "unknown key",
         !known_part(name) && !nearest.empty() ? "; did you mean '" + nearest + "'?" : "",
         " (parts in use: ", list, ")");
  }
  const auto options_of = [&](const std::string& part) {
    ConfigNode options{ConfigNode::Table{}};
    if (const auto it = method.options.find(part); it != method.options.end())
      options.merge(it->second);
    if (const auto it = config.parts.find(part); it != config.parts.end())
      options.merge(it->second);
    return options;
  };
  const auto complete = [&](const auto& registry, const std::string& part) {
    router.options[part] = registry.at(part).complete(options_of(part));
  };
  complete(scorer_registry(), router.scorer);
  complete(selector_registry(), router.selector);
  for (const auto& balancer : router.balancers) complete(balancer_registry(), balancer);
  router.traits = combine(
      scorer_registry().at(router.scorer).traits_under(router.options.at(router.scorer)),
      selector_registry().at(router.selector).traits_under(router.options.at(router.selector)));
  return router;
}

}  // namespace penstock
