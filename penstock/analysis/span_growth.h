// Measures how the space spanned by a router's rows grows over the checkpoints of a run.
#pragma once

#include <vector>

#include "penstock/analysis/gating.h"
#include "penstock/analysis/rank.h"

namespace penstock::analysis {

/// Growth for one layer over n checkpoints. Entry i is for the first i + 1 checkpoints together.
struct SpanGrowth {
  std::vector<Rank> router;  ///< ranks of [W(t₁); W(t₂); ...], the stacked router rows
  /// Mean over tokens of the ranks of [G(t₁); G(t₂); ...], G(t) = ∂g/∂x at one token
  /// (Gating::rows).
  std::vector<double> token_rank, token_effective;
};

/// All routers get the same token vectors, so that only the router changes between checkpoints. A
/// frozen router does not change. A router that a hypernetwork generates changes with its
/// embedding. Ranks use f32's precision, because the weights were trained in f32.
/// @param routers  the router of one layer at each checkpoint, in order; forms and k are equal
/// @param tokens   [n, d]
SpanGrowth span_growth(const std::vector<Gating>& routers, const at::Tensor& tokens);

}  // namespace penstock::analysis
