// A model's layer computed again in the backward pass: what it draws is drawn again, and its
// routing is that of the first time, which alone is seen. The graph behind it is
// layers/recomputed.h.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "penstock/routers/routing.h"

namespace penstock {

/// Outputs of a layer's inputs, and its routing where it has experts.
using LayerPass = std::function<std::vector<at::Tensor>(
    const std::vector<at::Tensor>& inputs, const RoutingContext&, std::optional<RoutingResult>&)>;

/// layer(inputs, context, routing), of which the inputs alone are kept. Each time it is called with
/// a copy of the context's generator (a seeded one where it has none), in the state before. The
/// routing is without gradient but for its loss.
/// @param layer  kept until the backward pass;  @param parameters  see recomputed()
std::vector<at::Tensor> layer_again(const LayerPass& layer, const std::vector<at::Tensor>& inputs,
                                    RoutingContext context,
                                    const std::vector<at::Tensor>& parameters,
                                    std::optional<RoutingResult>& routing);

}  // namespace penstock
