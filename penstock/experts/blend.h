// Blends expert weights per segment for merging plans, over a group of ranks that each hold some of
// the experts. experts.h computes with the blends.
#pragma once

#include <ATen/core/Tensor.h>

#include "penstock/dist/group.h"
#include "penstock/experts/exchange_rows.h"

namespace penstock {

/// θ̄_s = Σ_e w_se θ_e. In a group, each rank blends its experts for the segments of all ranks, and
/// sends each rank the part for that rank's segments. The receiving rank adds the parts in rank
/// order. Every rank makes the same calls.
class Blend {
 public:
  /// @param weights  [S, E] for this rank's segments. S may differ between ranks.
  Blend(const at::Tensor& weights, const dist::ProcessGroup& group);
  /// @param parameters  [E/e, ...], of this rank's experts.  @return [S, ...].
  /// Gradient: the weights and the parameters. Cost: ΣS·E/e·n multiply-adds, and S·n numbers
  /// received from each rank; n is the number of values in one expert's parameter.
  at::Tensor of(const at::Tensor& parameters) const;

 private:
  dist::ProcessGroup group_;
  RowCounts mine_, theirs_;  // this rank's S, once for each rank; every rank's S
  at::Tensor weights_;       // [ΣS, E/e]: the segments of all ranks, this rank's experts
};

}  // namespace penstock
