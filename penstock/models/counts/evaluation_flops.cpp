#include "penstock/models/counts/evaluation_flops.h"

#include "penstock/models/counts/flops.h"

namespace penstock {

double linear_layer_flops(const ModelConfig& config, const EvaluationWork& work) {
  const ModelMultiplyAdds multiply_adds(config);
  const auto rows = static_cast<double>(work.sequences),
             tokens = rows * static_cast<double>(work.length);
  const auto span = static_cast<double>(work.length + (config.has_memory() ? work.memory : 0));
  const double queries = work.queries_of_memory ? rows * span : tokens;
  const auto moe = static_cast<double>(config.moe_layers());
  return 2 * (queries * multiply_adds.queries + tokens * multiply_adds.outputs +
              rows * span * multiply_adds.keys_values + span * multiply_adds.distances +
              tokens * (multiply_adds.dense + moe * work.active_experts * multiply_adds.expert +
                        multiply_adds.shared + multiply_adds.routing));
}

}  // namespace penstock
