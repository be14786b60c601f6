#include "penstock/models/counts/training_memory.h"

#include <cmath>

#include "penstock/models/counts/parameter_count.h"

namespace penstock {

TrainingMemory training_memory(const ModelConfig& config, const TrainingPass& pass) {
  const ParameterCounts counts = count_parameters(config);
  const std::int64_t parameters = counts.total;
  const auto [layers, besides] = activations(config, pass);
  return {.parameter_bytes = 4 * (parameters + counts.frozen),
          .gradient_bytes = 4 * parameters,
          .optimizer_bytes = 2 * pass.moment_bytes * parameters,
          .activation_bytes = std::llround(layers + besides)};
}

TrainingMemory training_memory(const ModelConfig& config, std::int64_t micro_batch,
                               std::int64_t sequence_length, bool recompute_experts,
                               ops::ProductPrecision precision) {
  return training_memory(
      config, {.micro_batch = micro_batch,
               .sequence_length = sequence_length,
               .recomputed = recompute_experts ? recomputed_experts(config) : Recomputation(),
               .precision = precision});
}

}  // namespace penstock
