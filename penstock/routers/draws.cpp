#include "penstock/routers/draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

namespace penstock {
namespace {

/// The tensor is f32 whatever `like` is, so that f64 references get the same routes as training.
at::Tensor empty(at::IntArrayRef sizes) { return at::empty(sizes, at::kFloat); }

at::Generator generator(const RoutingContext& context) {
  return context.generator ? *context.generator : at::detail::getDefaultCPUGenerator();
}

}  // namespace

at::Tensor draw_uniform(at::IntArrayRef sizes, const at::Tensor& like,
                        const RoutingContext& context) {
  return empty(sizes).uniform_(0, 1, generator(context)).to(like.options());
}

at::Tensor draw_normal(at::IntArrayRef sizes, const at::Tensor& like,
                       const RoutingContext& context) {
  return empty(sizes).normal_(0, 1, generator(context)).to(like.options());
}

}  // namespace penstock
