// The ReLU routing operator: checks, implementations, gradient, dispatcher registration.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/route.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {
namespace {

using Backward = at::Tensor(const RouteGradients&, const at::Tensor&, const Route&);
using Outputs =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Signature = Outputs(const at::Tensor&);

const Implementations<Route(const at::Tensor&)>& forward_list() {
  static const Implementations<Route(const at::Tensor&)> list(
      "route_relu",
      {{"cpu", [](const at::Tensor& logits) { return cpu::declines({logits}); }, cpu::route_relu},
       {"reference", nullptr, reference::route_relu}});
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "route_relu.backward",
      {{"cpu",
        [](const RouteGradients& grads, const at::Tensor& logits, const Route&) {
          return cpu::declines({logits, grads.weight, grads.gate_sums});
        },
        cpu::route_relu_backward},
       {"reference", nullptr, reference::route_relu_backward}});
  return list;
}

Outputs forward_kernel(const at::Tensor& logits) {
  check_same_kind({logits}, "route_relu");
  PENSTOCK_CHECK(logits.dim() == 2, "[route_relu] logits must be [T, E], not ", logits.sizes());
  const Route r = forward_list().run(logits);
  return {r.weight, r.gate_sums, r.token, r.expert, r.offsets, r.by_token, r.token_offsets};
}

class RouteRelu : public torch::autograd::Function<RouteRelu> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& logits) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [weight, gate_sums, token, expert, offsets, by_token, token_offsets] =
        forward_kernel(logits);
    context->save_for_backward({logits, token, expert, by_token, token_offsets});
    context->mark_non_differentiable({token, expert, offsets, by_token, token_offsets});
    context->set_materialize_grads(false);
    return {weight, gate_sums, token, expert, offsets, by_token, token_offsets};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Route route{
        .token = saved[1], .expert = saved[2], .by_token = saved[3], .token_offsets = saved[4]};
    return {backward_list().run({.weight = grads[0], .gate_sums = grads[1]}, saved[0], route)};
  }
};

Outputs autograd_kernel(const at::Tensor& logits) {
  if (needs_gradient(logits)) {
    const auto out = recorded<RouteRelu>("route_relu", logits);
    return {out[0], out[1], out[2], out[3], out[4], out[5], out[6]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(logits);
}

}  // namespace

Route route_relu(const at::Tensor& logits) {
  static const auto handle = dispatcher_handle<Signature>("route_relu");
  auto [weight, gate_sums, token, expert, offsets, by_token, token_offsets] = handle.call(logits);
  return {.weight = weight,
          .token = token,
          .expert = expert,
          .offsets = offsets,
          .by_token = by_token,
          .token_offsets = token_offsets,
          .gate_sums = gate_sums};
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("route_relu", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("route_relu", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("route_relu", penstock::ops::autograd_kernel); }
