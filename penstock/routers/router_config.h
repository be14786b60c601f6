// The router in a recipe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"

namespace penstock {

/// The router in a recipe: a method, and the parts and options that override it.
struct RouterConfig {
  std::string method = "topk";
  std::string scorer, selector;  ///< non-empty: override the method's
  std::optional<std::vector<std::string>> balancers;
  double k = 1;
  double init_std = 0;  ///< 0: the model's init_std
  double lr_scale = 1;  ///< read by the trainer
  std::map<std::string, ConfigNode> parts;

  template <class V>
  void visit(V& v) {
    v("method", method, {.help = "a named combination of parts; see `penstock routers`"});
    v("scorer", scorer, {.help = "scorer, in place of the method's"});
    v("selector", selector, {.help = "selector, in place of the method's"});
    v("balancers", balancers, {.help = "balancers, in place of the method's"});
    v("k", k, {.help = "nominal number of active experts per token, before granularity", .min = 0});
    v("init_std", init_std,
      {.help = "standard deviation of the router's initial weights; 0: the model's init_std",
       .min = 0});
    v("lr_scale", lr_scale,
      {.help = "factor of the learning rate for the scorers' parameters", .min = 0});
    v.rest(parts, "options of a part in use, by its name");
  }
  /// Whether there is no router: the method has no parts, and the recipe names none.
  bool dense() const;
};

}  // namespace penstock
