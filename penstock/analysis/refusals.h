// Tells which measurements of `penstock analyse` are not defined for a model's router, and why.
#pragma once

#include <string>

#include "penstock/models/model_config.h"

namespace penstock::analysis {

/// For each part, why it is not defined for the model's router; "" if it is defined.
struct Refusals {
  std::string entropy, load, samples, jacobian, gradient;
};

/// Throws Error for a model without MoE layers.
Refusals refusals(const ModelConfig& config);

}  // namespace penstock::analysis
