// The memory of a training step, in closed form, without building the model.
#pragma once

#include <cstdint>

#include "penstock/models/counts/activations.h"
#include "penstock/models/model_config.h"
#include "penstock/ops/machine/precision.h"

namespace penstock {

/// Bytes that training holds: weights, gradients, AdamW's two moments, and an estimate of the
/// backward pass's memory for one micro-batch.
struct TrainingMemory {
  std::int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0, activation_bytes = 0;
  /// The sum of all four.
  std::int64_t total() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + activation_bytes;
  }
};

/// Memory of a training step: 8 bytes a parameter (4 for a frozen one), two moments, and
/// activations().
TrainingMemory training_memory(const ModelConfig& config, const TrainingPass& pass);
/// The same for one process. With recompute_experts every MoE layer recomputes its experts.
TrainingMemory training_memory(const ModelConfig& config, std::int64_t micro_batch,
                               std::int64_t sequence_length, bool recompute_experts = false,
                               ops::ProductPrecision precision = ops::ProductPrecision::fp32);

}  // namespace penstock
