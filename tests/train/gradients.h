// The gradients that a backward pass left in a model.
#pragma once

#include <torch/types.h>

#include <vector>

#include "penstock/models/language_model.h"

namespace penstock::testing {

/// The gradients by parameter; zeros for a parameter without a gradient. Removes them from the
/// model.
inline std::vector<at::Tensor> gradients(LanguageModel& model) {
  std::vector<at::Tensor> out;
  for (auto& parameter : model.parameters()) {
    out.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                             : torch::zeros_like(parameter));
    parameter.mutable_grad() = at::Tensor();
  }
  return out;
}

}  // namespace penstock::testing
