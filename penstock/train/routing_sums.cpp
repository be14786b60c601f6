#include "penstock/train/routing_sums.h"

#include <torch/types.h>

#include <algorithm>

namespace penstock {

void RoutingSums::add(std::int64_t layer, const RoutingResult& result, double weight) {
  const Plan& plan = result.plan;
  const auto index = static_cast<std::size_t>(layer);
  if (index >= report_.sparsity_by_layer.size()) {
    report_.sparsity_by_layer.resize(index + 1);
    report_.load.resize(index + 1);
  }
  counts_.add(layer, plan);
  report_.sparsity_by_layer[index] += weight * sparsity(plan);
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, plan.tokens));
  tokens_ += tokens;
  if (!plan.merges()) {
    auto& load = report_.load[index];
    load.resize(static_cast<std::size_t>(plan.experts));
    const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
    for (std::size_t e = 0; e < load.size(); ++e)
      load[e] += weight * (static_cast<double>(offsets[e + 1] - offsets[e]) / tokens);
    assignments_ += static_cast<double>(plan.assignments());
  } else {  // one merged expert per token
    assignments_ += tokens;
  }
  for (const auto& [part, loss] : result.loss_terms) add_to(losses_, part, loss, weight);
  for (const auto& [name, value] : result.statistics)
    if (value.numel() == 1) add_to(statistics_, name, value, weight);
}

void RoutingSums::add_to(Sums& sums, const std::string& name, const at::Tensor& value,
                         double weight) {
  const at::Tensor addend = value.detach().to(at::kDouble) * weight;
  at::Tensor& sum = sums[name];
  sum = sum.defined() ? sum + addend : addend;
}

void RoutingSums::read(const Sums& sums, double weights, std::map<std::string, double>& out) {
  for (const auto& [name, sum] : sums) out[name] = sum.item<double>() / weights;
}

void RoutingSums::finish(double weights, StepReport& out) {
  for (double& value : report_.sparsity_by_layer) value /= weights;
  for (auto& layer : report_.load)
    for (double& value : layer) value /= weights;
  read(statistics_, weights, out.statistics);
  read(losses_, weights, out.auxiliary_losses);
  const auto layers = static_cast<double>(report_.sparsity_by_layer.size());
  if (layers > 0) out.active_experts = assignments_ / (tokens_ / layers) / layers;
  // From whole counts, so that k·T·L assignments give the target 1 − k/E to the last bit.
  out.routing = counts_.take();
  out.sparsity = out.routing.sparsity;
  out.sparsity_by_layer = std::move(report_.sparsity_by_layer);
  out.load = std::move(report_.load);
}

}  // namespace penstock
