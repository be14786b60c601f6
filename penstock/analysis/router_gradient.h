// The gradient of the language loss for each router: statistics of the gates' sums, and the
// gradient of the router's matrix in two parts, one along the matrix (its size) and one orthogonal
// to it (its direction). Runs training passes but changes no weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/analysis/entropy.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

/// The gradient of a matrix W in two orthogonal parts.
struct SplitGradient {
  double weight_norm = 0;  ///< ‖W‖_F
  double size = 0;         ///< ⟨G_W, W⟩ / ‖W‖_F; above 0 if descent shrinks W
  double direction = 0;    ///< √(‖G_W‖_F² − size²)
};

struct RouterGradient {
  Moments gate_sum;      ///< moments of s_t = Σ_e g_te over tokens
  Moments log_gate_sum;  ///< moments of ln s_t over tokens with s_t > 0
  double logits = 0;     ///< ‖G‖_F, G = ∂loss/∂z [T, E]
  /// The share of G that acts through the gates' sum:
  ///   Σ_t ⟨G_t, u_t⟩² / Σ_t ‖G_t‖²,  u_t the unit vector of ∂s_t/∂z_t, or 0 if that is 0
  /// No value if G is 0 or if the selector's gradient is an estimate.
  std::optional<double> along_gate_sum;
  /// The parts of G_W = Gᵀ hidden, the gradient of the scorer's folded matrix. No value if the
  /// scorer does not fold.
  std::optional<SplitGradient> matrix;
};

struct RouterGradientOptions {
  Split split = Split::kTest;
  std::int64_t tokens = 2048;          ///< T, in evenly spaced windows; fewer in a short split
  std::int64_t sequence_length = 256;  ///< of the windows, without memory
  std::int64_t step = 0;               ///< for selectors with a schedule
  std::int64_t total_steps = 0;
};

/// Why no gradient of the loss reaches the logits of single tokens; "" if one does.
std::string declines_router_gradient(const ModelConfig& config);

/// The router gradient of each MoE layer, for the mean cross-entropy without balancers' losses. The
/// passes run in training mode, with at most 1,024 tokens each. Their random draws are the same in
/// every call. The model keeps its parameters, buffers, gradients and mode.
/// REQUIRES: declines_router_gradient() returns "" (asserted).
std::vector<RouterGradient> router_gradients(LanguageModel& model, const Corpus& corpus,
                                             const RouterGradientOptions& options);

/// Splits a gradient into its parts along and orthogonal to the weight.
/// @param gradient, weight  [E, d], any floating dtype
SplitGradient split_gradient(const at::Tensor& gradient, const at::Tensor& weight);

}  // namespace penstock::analysis
