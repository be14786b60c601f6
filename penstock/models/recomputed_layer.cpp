#include "penstock/models/recomputed_layer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <memory>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/layers/recomputed.h"
#include "penstock/models/pass_draws.h"

namespace penstock {
namespace {

/// The routing for other readers, without the graph that made it.
RoutingResult without_gradient(RoutingResult routing) {
  const auto detach = [](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.detach();
  };
  Plan& plan = routing.plan;
  Scores& scores = routing.scores;
  for (at::Tensor* const tensor :
       {&routing.hidden, &plan.weight, &plan.mean_probability, &plan.logsumexp, &plan.gate_sums,
        &plan.merge_weights, &scores.logits, &scores.clean_logits, &scores.noise_scale,
        &scores.penalty, &routing.loss})
    detach(*tensor);
  for (auto& [name, term] : routing.loss_terms) detach(term);
  return routing;
}

/// The numbers of assignments of all experts, as Plan::offsets. Undefined without such a plan.
at::Tensor offsets_of(const std::optional<RoutingResult>& routing) {
  return routing ? routing->plan.offsets : at::Tensor();
}

void check_same_loads(const at::Tensor& first, const at::Tensor& second) {
  PENSTOCK_ASSERT(first.defined() == second.defined() && (!first.defined() || first.equal(second)),
                  "a layer that is computed again gives its experts other numbers of tokens than "
                  "in the first pass");
}

}  // namespace

std::vector<at::Tensor> recomputed_layer(const LayerPass& layer,
                                         const std::vector<at::Tensor>& inputs,
                                         RoutingContext context,
                                         const std::vector<at::Tensor>& parameters,
                                         std::optional<RoutingResult>& routing) {
  const bool draws = context.training && !context.generator;
  if (draws)
    context.generator =
        at::detail::createCPUGenerator(next_bits(at::detail::getDefaultCPUGenerator()));
  const auto first = std::make_shared<std::optional<RoutingResult>>();
  const auto offsets = std::make_shared<at::Tensor>();
  const Piece piece = [layer, context, offsets,
                       seen = std::weak_ptr(first)](const std::vector<at::Tensor>& given) {
    RoutingContext again = context;
    if (again.generator) again.generator = again.generator->clone();
    std::optional<RoutingResult> routed;
    std::vector<at::Tensor> out = layer(given, again, routed);
    if (routed && routed->loss.defined()) out.push_back(routed->loss);
    if (const auto wanted = seen.lock()) {  // only in the forward pass
      *offsets = offsets_of(routed);
      *wanted = std::move(routed);
    } else {
      check_same_loads(*offsets, offsets_of(routed));
    }
    return out;
  };
  std::vector<at::Tensor> out = recomputed(piece, inputs, parameters);
  routing = std::move(*first);
  if (!routing) return out;
  routing = without_gradient(std::move(*routing));
  if (routing->loss.defined()) {
    routing->loss = out.back();
    out.pop_back();
  }
  return out;
}

}  // namespace penstock
