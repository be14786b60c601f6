// What `penstock analyse` cannot measure of a model, by its router alone.
#pragma once

#include <string>

#include "penstock/models/model_config.h"

namespace penstock::analysis {

/// Why a part is not defined for a model's router; "" where it is.
struct Refusals {
  std::string entropy, load, samples, jacobian, gradient;
};

/// Throws Error for a model without MoE layers.
Refusals refusals(const ModelConfig& config);

}  // namespace penstock::analysis
