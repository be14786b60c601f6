// Sets the mean number of active experts of ReLU routing, so that a bench can measure the stable
// state of training without running the training.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "penstock/layers/moe.h"

namespace penstock::bench {

/// Shifts of the logits, one for each layer of each micro-batch. An untimed pass finds the shifts,
/// and the timed pass adds them again.
class ActiveExperts {
 public:
  /// Makes each of the layers add shifts to its scorer's logits.
  /// @param target  mean experts per token, in each layer of each micro-batch
  ActiveExperts(double target, const std::vector<MoeLayer*>& layers);

  /// From now on, each call of a scorer finds the shift of its logits, adds it and records it.
  void find();
  /// From now on, calls of the scorers add the recorded shifts in the same order.
  void repeat();

 private:
  struct Shifts;
  class ShiftedScorer;
  std::shared_ptr<Shifts> shifts_;
};

/// The constant c that makes `target`·R (rounded) of the logits [R, E] positive when it is added.
/// −c is halfway between the smallest logit that becomes positive and the largest one that does
/// not.
double shift_for(const at::Tensor& logits, double target);

}  // namespace penstock::bench
