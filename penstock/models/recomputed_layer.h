// Computes a model's layer again in the backward pass. The second run draws the same random
// numbers. Only the routing of the first run is reported. layers/recomputed.h has the autograd
// part.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "penstock/routers/routing.h"

namespace penstock {

/// A layer's outputs for its inputs, and its routing if it has experts.
using LayerPass = std::function<std::vector<at::Tensor>(
    const std::vector<at::Tensor>& inputs, const RoutingContext&, std::optional<RoutingResult>&)>;

/// Runs layer(inputs, context, routing) and keeps only the inputs. Each run gets a copy of the
/// context's generator in the same state (a seeded one if the context has none). Of the routing,
/// only the loss has a gradient. The second run routes anew, from the same values. It fails an
/// assertion if its plan has other numbers of assignments.
/// @param layer  kept until the backward pass;  @param parameters  see recomputed()
std::vector<at::Tensor> recomputed_layer(const LayerPass& layer,
                                         const std::vector<at::Tensor>& inputs,
                                         RoutingContext context,
                                         const std::vector<at::Tensor>& parameters,
                                         std::optional<RoutingResult>& routing);

}  // namespace penstock
