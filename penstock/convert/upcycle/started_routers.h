// The routers of an upcycled model as training finds them, built from their tensors: for measuring
// them, and for the state in which their balancers begin.
#pragma once

#include <memory>
#include <vector>

#include "penstock/convert/upcycle/router_tensors.h"
#include "penstock/models/model_config.h"
#include "penstock/routers/router.h"

namespace penstock {

struct StartedRouters {
  std::vector<std::shared_ptr<Router>> layers;       ///< of the MoE layers, f32
  std::vector<std::shared_ptr<Balancer>> balancers;  ///< of the model, in the config's order
};

/// Builds the routers of all MoE layers with these tensors. Their balancers are started
/// (Balancer::start) and have seen no step.
/// @param routers  by MoE layer, every parameter and buffer of the scorer
/// REQUIRES: config is resolved. Cost: a copy of the tensors.
StartedRouters started_routers(const std::vector<RouterTensors>& routers,
                               const ModelConfig& config);

}  // namespace penstock
