// Evaluates a router the way that it was trained, for routers where the two differ.
#pragma once

#include "penstock/routers/router_config.h"

namespace penstock {

/// Returns a router that keeps its thresholds (Scores::thresholds) but does not use them. Experts
/// then choose among all tokens of a pass outside training too. Parameters and state have
/// the same names and shapes. Throws Error for a router without thresholds.
RouterConfig as_trained(const RouterConfig& config);

}  // namespace penstock
