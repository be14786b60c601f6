#include "penstock/models/counts/evaluation_flops.h"

#include "penstock/models/counts/flops.h"

namespace penstock {

double linear_layer_flops(const ModelConfig& config, const EvaluationWork& work) {
  const ModelProducts products(config);
  const auto rows = static_cast<double>(work.sequences),
             tokens = rows * static_cast<double>(work.length);
  const auto span = static_cast<double>(work.length + (config.has_memory() ? work.memory : 0));
  const double queries = work.queries_of_memory ? rows * span : tokens;
  const auto moe = static_cast<double>(config.moe_layers());
  return 2 * (queries * products.queries + tokens * products.outputs +
              rows * span * products.keys_values + span * products.distances +
              tokens * (products.dense + moe * work.active_experts * products.expert +
                        products.shared + products.routing));
}

}  // namespace penstock
