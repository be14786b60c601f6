// The top-k routing operator: checks, implementations, gradient, dispatcher registration.
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

std::string describe(const Route& route) { return concat(route.by_token.size(0), " assignments"); }

std::string describe(const RouteGradients& grads) {
  return concat("of", grads.weight.defined() ? " weight" : "",
                grads.mean_probability.defined() ? " mean_probability" : "",
                grads.logsumexp.defined() ? " logsumexp" : "",
                grads.gate_sums.defined() ? " gate_sums" : "");
}

double bytes_of(const Route& r) {
  double bytes = 0;
  for (const at::Tensor& tensor : {r.weight, r.token, r.expert, r.offsets, r.by_token,
                                   r.token_offsets, r.mean_probability, r.logsumexp, r.gate_sums})
    bytes += bytes_of(tensor);
  return bytes;
}

double bytes_of(const RouteGradients& grads) {
  return bytes_of(grads.weight) + bytes_of(grads.mean_probability) + bytes_of(grads.logsumexp) +
         bytes_of(grads.gate_sums);
}

namespace {

using Forward = Route(const at::Tensor&, std::int64_t, bool);
using Backward = at::Tensor(const RouteGradients&, const at::Tensor&, const Route&, bool);
using Outputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                           at::Tensor, at::Tensor>;
using Signature = Outputs(const at::Tensor&, std::int64_t, bool);

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "route_topk",
      {{"cpu", [](const at::Tensor& logits, std::int64_t, bool) { return cpu::declines({logits}); },
        cpu::route_topk},
       {"reference", nullptr, reference::route_topk}});
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "route_topk.backward",
      {{"cpu",
        [](const RouteGradients& grads, const at::Tensor& logits, const Route&, bool) {
          return cpu::declines({logits, grads.weight, grads.mean_probability, grads.logsumexp});
        },
        cpu::route_topk_backward},
       {"reference", nullptr, reference::route_topk_backward}});
  return list;
}

Outputs forward_kernel(const at::Tensor& logits, std::int64_t k, bool over_kept) {
  check_same_kind({logits}, "route_topk");
  PENSTOCK_CHECK(logits.dim() == 2, "[route_topk] logits must be [T, E], not ", logits.sizes());
  PENSTOCK_CHECK(k >= 1 && k <= logits.size(1), "[route_topk] k = ", k, " of ", logits.size(1),
                 " experts: it must be from 1 to all");
  const Route r = forward_list().run(logits, k, over_kept);
  return {r.weight, r.mean_probability, r.logsumexp, r.token,
          r.expert, r.offsets,          r.by_token,  r.token_offsets};
}

class RouteTopK : public torch::autograd::Function<RouteTopK> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& logits, std::int64_t k,
                                                bool over_kept) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [weight, mean, logsumexp, token, expert, offsets, by_token, token_offsets] =
        forward_kernel(logits, k, over_kept);
    context->save_for_backward({logits, weight, logsumexp, token, expert, by_token});
    context->saved_data["over_kept"] = over_kept;
    context->mark_non_differentiable({token, expert, offsets, by_token, token_offsets});
    context->set_materialize_grads(false);
    return {weight, mean, logsumexp, token, expert, offsets, by_token, token_offsets};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const Route route{.weight = saved[1],
                      .token = saved[3],
                      .expert = saved[4],
                      .by_token = saved[5],
                      .logsumexp = saved[2]};
    const RouteGradients wanted{
        .weight = grads[0], .mean_probability = grads[1], .logsumexp = grads[2]};
    return {backward_list().run(wanted, saved[0], route, context->saved_data["over_kept"].toBool()),
            at::Tensor(), at::Tensor()};
  }
};

Outputs autograd_kernel(const at::Tensor& logits, std::int64_t k, bool over_kept) {
  if (needs_gradient(logits)) {
    const auto out = recorded<RouteTopK>("route_topk", logits, k, over_kept);
    return {out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(logits, k, over_kept);
}

}  // namespace

Route route_topk(const at::Tensor& logits, std::int64_t k, bool over_kept) {
  static const auto handle = dispatcher_handle<Signature>("route_topk");
  auto [weight, mean, logsumexp, token, expert, offsets, by_token, token_offsets] =
      handle.call(logits, k, over_kept);
  return {.weight = weight,
          .token = token,
          .expert = expert,
          .offsets = offsets,
          .by_token = by_token,
          .token_offsets = token_offsets,
          .mean_probability = mean,
          .logsumexp = logsumexp};
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("route_topk", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("route_topk", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("route_topk", penstock::ops::autograd_kernel); }
