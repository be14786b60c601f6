// What the language loss tells each router: the gates' sums, and the gradient of the router's
// matrix in two parts, along the matrix (its size) and across it (its direction). One training
// pass; nothing is trained.
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
  double size = 0;         ///< ⟨G_W, W⟩ / ‖W‖_F; above 0 where descent shrinks W
  double direction = 0;    ///< √(‖G_W‖_F² − size²)
};

struct RouterGradient {
  Moments gate_sum;      ///< of s_t = Σ_e g_te, over tokens
  Moments log_gate_sum;  ///< of ln s_t, over tokens with s_t > 0
  double logits = 0;     ///< ‖G‖_F, G = ∂loss/∂z [T, E]
  /// Σ_t ⟨G_t, u_t⟩² / Σ_t ‖G_t‖², u_t the unit vector of ∂s_t/∂z_t, and 0 where that is 0: the
  /// share of G that acts through the gates' sum. None where G is 0, and where the selector passes
  /// back an estimate.
  std::optional<double> along_gate_sum;
  /// Of G_W = Gᵀ hidden, the gradient of the matrix that the scorer folds into. None where it does
  /// not fold.
  std::optional<SplitGradient> matrix;
};

struct RouterGradientOptions {
  Split split = Split::kTest;
  std::int64_t tokens = 2048;          ///< T, of evenly spaced windows; fewer in a short split
  std::int64_t sequence_length = 256;  ///< of the windows, without memory
  std::int64_t step = 0;               ///< for selectors with a schedule
  std::int64_t total_steps = 0;
};

/// "" or why tokens have no logits that the loss reaches.
std::string declines_router_gradient(const ModelConfig& config);

/// Of each MoE layer, by the mean cross-entropy alone, without balancers' losses. Passes are those
/// of training, of at most 1,024 tokens each, with draws that are the same in every call; the model
/// keeps its parameters, buffers, gradients and mode.
/// REQUIRES: declines_router_gradient() has nothing to say (asserted).
std::vector<RouterGradient> router_gradients(LanguageModel& model, const Corpus& corpus,
                                             const RouterGradientOptions& options);

/// @param gradient, weight  [E, d], any floating dtype
SplitGradient split_gradient(const at::Tensor& gradient, const at::Tensor& weight);

}  // namespace penstock::analysis
