// The routing tap: observers of each MoE layer's result. Analysis hooks in here and never edits a
// model. With no observer the cost is one branch a layer.
#pragma once

#include <cstdint>
#include <functional>

#include "penstock/routers/routing.h"

namespace penstock {

/// Each MoE layer calls it after its router, with the layer's index and the router's results.
using RoutingTap = std::function<void(std::int64_t layer, const RoutingResult& result)>;

}  // namespace penstock
