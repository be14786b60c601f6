// Fits a router's bias into its matrix, for programs whose routers have no bias. It is not exact:
// it is close only for inputs like those of the fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "penstock/models/language_model.h"

namespace penstock {

/// The common directions of routers' inputs.
struct CommonDirections {
  /// By MoE layer, v [d] f64: argmin_v Σ_t (x_t · v − 1)² + λ |v|², where x are the inputs of the
  /// layer's router and λ is 1e-6 of their mean square. W + b·vᵀ gives the logits W·x + b if
  /// x · v = 1.
  std::vector<at::Tensor> ones;
  double residual = 0;  ///< root mean square of x_t · v − 1 over tokens, of the worst layer
  std::int64_t tokens = 0;
};

/// @param windows [n, L] i64 token ids
/// Throws Error for a dense model. Cost: a forward pass without the head, and in each layer d² f64
/// numbers and the solution of d equations.
CommonDirections common_directions(LanguageModel& model, const at::Tensor& windows);

}  // namespace penstock
