// Routing in plain ATen.
#include "penstock/ops/route.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "penstock/ops/top_mask.h"

namespace penstock::ops::reference {
namespace {

double rows_of(const at::Tensor& logits) {
  return static_cast<double>(std::max<std::int64_t>(1, logits.size(0)));
}

/// Position of each assignment in the flattened [T, E].
at::Tensor positions(const Route& route, std::int64_t experts) {
  return route.token * experts + route.expert;
}

/// A matrix like `logits` that holds `values` at the assignments' positions `flat`, and 0
/// elsewhere.
at::Tensor spread(const at::Tensor& values, const at::Tensor& flat, const at::Tensor& logits) {
  return at::zeros({logits.numel()}, logits.options())
      .index_copy_(0, flat, values)
      .view(logits.sizes());
}

}  // namespace

Route route_mask(const at::Tensor& mask) {
  const std::int64_t tokens = mask.size(0), experts = mask.size(1);
  const auto prefix_sums = [](const at::Tensor& counts) {
    return at::cat({at::zeros({1}, counts.options()), counts.cumsum(0)});
  };
  const at::Tensor pairs = mask.t().nonzero();  // [A, 2], by expert, then token
  Route route;
  route.expert = pairs.select(1, 0).contiguous();
  route.token = pairs.select(1, 1).contiguous();
  route.offsets = prefix_sums(mask.sum(0)).cpu();
  route.token_offsets = prefix_sums(mask.sum(1));
  const at::Tensor flat = positions(route, experts);
  const at::Tensor rank = at::zeros({tokens * experts}, flat.options());
  rank.index_copy_(0, flat, at::arange(flat.size(0), flat.options()));
  route.by_token = rank.masked_select(mask.flatten());
  return route;
}

Route route_topk(const at::Tensor& logits, std::int64_t k, bool over_kept) {
  const at::Tensor mask = top_mask_reference(logits, k);
  Route route = route_mask(mask);
  route.logsumexp = at::logsumexp(logits, 1);                        // [T]
  const at::Tensor centred = logits - route.logsumexp.unsqueeze(1);  // [T, E]
  const at::Tensor probabilities = centred.exp();
  route.mean_probability = probabilities.sum(0).div(rows_of(logits));  // [E]
  // Uses the centred logits, because one NaN makes their whole row NaN.
  const double off = -std::numeric_limits<double>::infinity();
  const at::Tensor gates =
      over_kept ? centred.masked_fill(mask.logical_not(), off).softmax(1) : probabilities;
  route.weight = gates.flatten().index_select(0, positions(route, logits.size(1)));  // [A]
  return route;
}

at::Tensor route_topk_backward(const RouteGradients& grads, const at::Tensor& logits,
                               const Route& route, bool over_kept) {
  const at::Tensor probabilities = (logits - route.logsumexp.unsqueeze(1)).exp();
  const auto through_softmax = [](const at::Tensor& p, const at::Tensor& grad) {
    return p * (grad - (p * grad).sum(1, true));
  };
  at::Tensor out = at::zeros_like(probabilities);
  if (grads.mean_probability.defined())
    out += through_softmax(probabilities, grads.mean_probability.div(rows_of(logits)).unsqueeze(0));
  if (grads.logsumexp.defined()) out += probabilities * grads.logsumexp.unsqueeze(1);
  if (grads.weight.defined()) {
    const at::Tensor flat = positions(route, logits.size(1));
    const at::Tensor grad = spread(grads.weight, flat, logits);
    out += through_softmax(over_kept ? spread(route.weight, flat, logits) : probabilities, grad);
  }
  return out;
}

Route route_relu(const at::Tensor& logits) {
  Route route = route_mask(logits.le(0).logical_not_());
  route.weight = logits.flatten().index_select(0, positions(route, logits.size(1)));        // [A]
  route.gate_sums = spread(route.weight, positions(route, logits.size(1)), logits).sum(0);  // [E]
  return route;
}

at::Tensor route_relu_backward(const RouteGradients& grads, const at::Tensor& logits,
                               const Route& route) {
  at::Tensor each = at::zeros(route.token.sizes(), logits.options());  // [A]
  if (grads.weight.defined()) each += grads.weight;
  if (grads.gate_sums.defined()) each += grads.gate_sums.index_select(0, route.expert);
  return spread(each, positions(route, logits.size(1)), logits);
}

}  // namespace penstock::ops::reference
