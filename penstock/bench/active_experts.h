// Holds ReLU routing at a stated mean number of active experts, so that its stable state can be
// measured without training into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace penstock::bench {

/// Shifts of the logits, one for each layer of each micro-batch: found in a pass whose time is not
/// measured, added in the one that is.
class ActiveExperts {
 public:
  /// @param target  experts per token, in the mean over a micro-batch and layer
  explicit ActiveExperts(double target) : target_(target) {}

  /// For RoutingContext::logit_shift: finds the shift of each call's logits, and keeps it.
  std::function<double(const at::Tensor&)> finding();
  /// The same shifts in the same order.
  std::function<double(const at::Tensor&)> repeating();

 private:
  double target_;
  std::vector<double> shifts_;
  std::size_t next_ = 0;  // of shifts_; not in the function, which contexts copy
};

/// The constant c with which `target`·R of the logits [R, E], to the nearest, are above 0 after
/// adding it: c lies halfway between the last that is to be positive and the next.
double shift_for(const at::Tensor& logits, double target);

}  // namespace penstock::bench
