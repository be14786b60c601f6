// Random numbers of stochastic routers. They come from the CPU on every device, so that a seed
// gives the same routes wherever the tensors are.
#pragma once

#include "penstock/routers/routing.h"

namespace penstock {

/// U(0, 1) of that shape, with the type and device of `like`, from the context's generator
/// (libtorch's default CPU generator where it has none).
at::Tensor draw_uniform(at::IntArrayRef sizes, const at::Tensor& like,
                        const RoutingContext& context);
/// N(0, 1), the same.
at::Tensor draw_normal(at::IntArrayRef sizes, const at::Tensor& like,
                       const RoutingContext& context);

}  // namespace penstock
