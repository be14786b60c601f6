// The routing tap: observers of each MoE layer's routing result. Analysis uses it in place of
// changes to a model. Without an observer the cost is one branch a layer.
#pragma once

#include <cstdint>
#include <functional>

#include "penstock/routers/routing.h"

namespace penstock {

/// Each MoE layer calls it after its router, with the layer's index and the router's results.
using RoutingTap = std::function<void(std::int64_t layer, const RoutingResult& result)>;

}  // namespace penstock
