#include "penstock/train/step/routing_sums.h"

#include <algorithm>

namespace penstock {

void RoutingSums::add(const RoutingRecord& layer, double weight) {
  const auto index = static_cast<std::size_t>(layer.layer);
  if (index >= report_.sparsity_by_layer.size()) {
    report_.sparsity_by_layer.resize(index + 1);
    report_.load.resize(index + 1);
  }
  counts_.add(layer.layer, layer.expert_tokens, layer.tokens, layer.lowest_taken);
  report_.sparsity_by_layer[index] += weight * layer.sparsity;
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, layer.tokens));
  tokens_ += tokens;
  if (!layer.merges) {
    auto& load = report_.load[index];
    load.resize(layer.expert_tokens.size());
    for (std::size_t e = 0; e < load.size(); ++e) {
      const auto assigned = static_cast<double>(layer.expert_tokens[e]);
      load[e] += weight * (assigned / tokens);
      assignments_ += assigned;
    }
  } else {  // one merged expert per token
    assignments_ += tokens;
  }
  idle_ += static_cast<double>(layer.idle_assignments);
  for (const auto& [part, loss] : layer.losses) report_.auxiliary_losses[part] += weight * loss;
  for (const auto& [name, value] : layer.statistics) report_.statistics[name] += weight * value;
}

void RoutingSums::finish(double weights, StepReport& out) {
  for (double& value : report_.sparsity_by_layer) value /= weights;
  for (auto& layer : report_.load)
    for (double& value : layer) value /= weights;
  for (auto& [name, value] : report_.statistics) value /= weights;
  for (auto& [part, loss] : report_.auxiliary_losses) loss /= weights;
  const auto layers = static_cast<double>(report_.sparsity_by_layer.size());
  if (layers > 0) out.active_experts = assignments_ / (tokens_ / layers) / layers;
  // The sparsity comes from whole counts, so that k·T·L assignments give 1 − k/E to the last bit.
  out.routing = counts_.take();
  out.sparsity = out.routing.sparsity;
  out.sparsity_by_layer = std::move(report_.sparsity_by_layer);
  out.load = std::move(report_.load);
  out.statistics = std::move(report_.statistics);
  out.auxiliary_losses = std::move(report_.auxiliary_losses);
}

}  // namespace penstock
