// Random numbers of stochastic routers. They come from the CPU on every device, so that a seed
// gives the same routes wherever the tensors are.
#pragma once

#include "penstock/routers/routing.h"

namespace penstock {

/// Draws U(0, 1) of the shape, with the type and device of `like`. The context's generator draws,
/// or libtorch's default CPU generator if the context has none.
at::Tensor draw_uniform(at::IntArrayRef sizes, const at::Tensor& like,
                        const RoutingContext& context);
/// Draws N(0, 1) in the same way.
at::Tensor draw_normal(at::IntArrayRef sizes, const at::Tensor& like,
                       const RoutingContext& context);

}  // namespace penstock
