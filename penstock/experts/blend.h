// Blends expert weights per segment for merging plans, over a group of ranks that each hold some of
// the experts. The experts compute with the blends.
#pragma once

#include <ATen/core/Tensor.h>

#include "penstock/dist/group.h"
#include "penstock/experts/exchange_rows.h"

namespace penstock {

/// θ̄_s = Σ_e w_se θ_e. Over ranks each rank blends its experts for the segments of all ranks and
/// sends every rank its own; these are added in rank order. Every rank makes the same calls.
class Blend {
 public:
  /// @param weights  [S, E] for this rank's segments. S may differ between ranks.
  Blend(const at::Tensor& weights, const dist::ProcessGroup& group);
  /// @param parameters  [E/e, ...], of this rank's experts.  @return [S, ...].
  /// Gradient: the weights and the parameters. Cost: ΣS·E/e·n products and, over ranks, S·n numbers
  /// from each, n the size of one expert's.
  at::Tensor of(const at::Tensor& parameters) const;

 private:
  dist::ProcessGroup group_;
  RowCounts mine_, theirs_;  // S for each rank, and every rank's
  at::Tensor weights_;       // [ΣS, E/e], every rank's segments, this rank's experts
};

}  // namespace penstock
