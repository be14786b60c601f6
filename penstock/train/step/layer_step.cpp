#include "penstock/train/step/layer_step.h"

#include <torch/autograd.h>

#include <vector>

#include "penstock/ops/profile/profile_clock.h"

namespace penstock {

LayerStepOutcome LayerStep::advance(const at::Tensor& x, const at::Tensor& direction,
                                    const RoutingContext& context, double lr) {
  optimizer_.zero_gradients();
  const double start = ops::profile_seconds();
  LayerStepOutcome out{.output = forward_(x, context)};
  const double forward = ops::profile_seconds();
  std::vector<at::Tensor> roots, gradients;
  const auto add = [&](const at::Tensor& root, const at::Tensor& gradient) {
    if (!root.defined() || !root.requires_grad()) return;  // nothing is trained
    roots.push_back(root);
    gradients.push_back(gradient);
  };
  add(out.output.y, direction);
  add(out.output.routing.loss, {});
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  const double backward = ops::profile_seconds();
  out.update = optimizer_.update(lr);
  out.forward_seconds = forward - start;
  out.backward_seconds = backward - forward;
  out.update_seconds = ops::profile_seconds() - backward;
  return out;
}

}  // namespace penstock
