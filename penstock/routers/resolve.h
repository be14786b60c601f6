// The parts in use under a router's config, with complete options.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/routers/router_config.h"
#include "penstock/routers/routing.h"
#include "penstock/routers/traits.h"

namespace penstock {

/// The parts in use: names and options after method, overrides and options are joined.
struct ResolvedRouter {
  std::string scorer, selector;
  std::vector<std::string> balancers;
  std::map<std::string, ConfigNode> options;  ///< of every part in use, with defaults filled in
  RouterTraits traits;                        ///< of all parts together

  bool dense() const { return selector.empty(); }
};

/// Joins method and overrides. Throws Error for unknown names, for unknown or impossible options,
/// for options of parts that are not in use, and for parts that do not fit together.
ResolvedRouter resolve(const RouterConfig& config);

/// Throws Error unless k is above 0 and at most the number of experts. The error names both by
/// their keys.
void check_k(double k, double experts, const std::string& k_key, const std::string& experts_key);

/// Throws Error that names the key if the options of a part in use do not fit the shape of the
/// layers. Builds nothing. REQUIRES: not dense.
void check_options(const ResolvedRouter& router, const RouterShape& shape);

}  // namespace penstock
