// Fits a layer with softmax gates over the k best experts to a layer with ReLU gates, and measures
// the error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/routers/traits.h"

namespace penstock {

/// y_t ≈ output · Σ_{e among the k best} g_te(scale · z_t) FFN_e(x_t)
struct GateFit {
  double scale = 1;   ///< β, the factor of the router's matrix
  double output = 1;  ///< α, the factor of every expert's last matrix
  double error = 0;   ///< Σ_t ‖y_t − ŷ_t‖² / Σ_t ‖y_t‖²; 0 if y is 0
};

/// The fit's inputs from a layer's outputs: their inner products at each token.
///   M_t[e, f] = ⟨FFN_e(x_t), FFN_f(x_t)⟩
/// @param outputs [E, N, d].  @return [N, E, E] f64
at::Tensor output_products(const at::Tensor& outputs);

/// The least-squares factors for y_t = Σ_e max(z_te, 0) FFN_e(x_t), where the gates g are a softmax
/// of β·z over the k kept logits, or over all logits with k gates kept. α has a closed form at each
/// β; β is searched on a grid of [1e-2, 1e2] relative to the logits' scale, and then on a finer
/// grid around the best.
/// @param logits [N, E];  @param products  output_products(), [N, E, E] f64
/// REQUIRES: 1 <= k <= E; `form` is a softmax. Computed in f64.
GateFit fit_gates(const at::Tensor& logits, const at::Tensor& products, std::int64_t k,
                  GateForm form);

}  // namespace penstock
