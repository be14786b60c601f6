// How the space that routers reach grows over the checkpoints of a run.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/analysis/gating.h"
#include "penstock/analysis/rank.h"

namespace penstock::analysis {

/// Growth of one layer over n checkpoints; entry i is of the first i + 1 together.
struct SpanGrowth {
  std::vector<Rank> router;  ///< of [W(t₁); W(t₂); ...], the stacked router rows
  /// Of [G(t₁); G(t₂); ...], G(t) = ∂g/∂x at one token (Gating::rows), mean over tokens.
  std::vector<double> token_rank, token_effective;
};

/// The tokens are the same vectors for all routers, so that only the router moves: a frozen one
/// stays where it was, and one that a hypernetwork generates moves with its embedding. Weights were
/// trained in f32, so directions below f32's precision are not counted.
/// @param routers  one layer's at each checkpoint, in order; forms and k equal
/// @param tokens   [n, d]
SpanGrowth span_growth(const std::vector<Gating>& routers, const at::Tensor& tokens);

}  // namespace penstock::analysis
