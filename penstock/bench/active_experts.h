// Holds ReLU routing at a stated mean number of active experts, so that its stable state can be
// measured without training into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "penstock/layers/moe.h"

namespace penstock::bench {

/// Shifts of the logits, one for each layer of each micro-batch: found in a pass whose time is not
/// measured, added in the one that is.
class ActiveExperts {
 public:
  /// Has each of these layers add shifts to its scorer's logits from now on.
  /// @param target  experts per token, in the mean over a micro-batch and layer
  ActiveExperts(double target, const std::vector<MoeLayer*>& layers);

  /// From the next call on: finds the shift of each call's logits, adds and keeps it.
  void find();
  /// The same shifts in the same order.
  void repeat();

 private:
  struct Shifts;
  class ShiftedScorer;
  std::shared_ptr<Shifts> shifts_;
};

/// The constant c with which `target`·R of the logits [R, E], to the nearest, are above 0 after
/// adding it: c lies halfway between the last that is to be positive and the next.
double shift_for(const at::Tensor& logits, double target);

}  // namespace penstock::bench
