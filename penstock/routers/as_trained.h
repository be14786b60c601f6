// A router that is evaluated as it was trained, where the two differ.
#pragma once

#include "penstock/routers/router.h"

namespace penstock {

/// The same router with thresholds (Scores::thresholds) that are kept and not used, so that experts
/// choose among all tokens of a pass outside training too; parameters and state have the same names
/// and shapes. Throws Error for a router that keeps none.
RouterConfig as_trained(const RouterConfig& config);

}  // namespace penstock
