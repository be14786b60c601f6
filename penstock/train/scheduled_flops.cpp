#include "penstock/train/scheduled_flops.h"

#include <map>

#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/model_tensors.h"

namespace penstock {
namespace {

/// How many of the steps have each number of experts per token, granularity applied.
std::map<double, std::int64_t> steps_by_k(const ModelConfig& model, std::int64_t steps) {
  const auto selector = selector_of(model);
  std::map<double, std::int64_t> out;
  RoutingContext context{.total_steps = steps, .training = true};
  for (; context.step < steps; ++context.step) ++out[selector->nominal_k(context)];
  return out;
}

}  // namespace

double mean_flops_per_step(const Recipe& recipe) {
  const TrainConfig& train = recipe.train;
  const auto flops = [&](const ModelConfig& model) {
    return nominal_training_flops(model, train.batch_sequences, train.sequence_length);
  };
  const ModelConfig& model = recipe.model;
  if (model.moe_layers() == 0) return flops(model);
  const double nominal = selector_of(model)->nominal_k({});
  double sum = 0;
  for (const auto& [k, count] : steps_by_k(model, train.steps)) {
    ModelConfig at_k = model;
    if (k != nominal) at_k.router.k = k / static_cast<double>(model.moe.granularity);
    sum += static_cast<double>(count) * flops(at_k);
  }
  return sum / static_cast<double>(train.steps);
}

}  // namespace penstock
