// Exchanges of one unit of parameters between the ranks of a group: gradients to who adds them up,
// and what each rank keeps to all.
#pragma once

#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/ranks/parameter_units.h"

namespace penstock {

/// Tensors by ParameterUnit::parameters, contiguous; or by a rank's spans.
using UnitTensors = std::vector<at::Tensor>;

/// From one thread at a time.
class UnitExchange {
 public:
  UnitExchange() = default;
  explicit UnitExchange(dist::ProcessGroup group) : group_(std::move(group)) {}

  /// Wall time in operations so far.
  double seconds() const { return seconds_; }

  /// Adds this rank's spans of all ranks' nodes to a tree of spans.
  /// @param nodes  of each rank, known to all
  /// @param mine   this rank's, whole; empty: others get zeros for them, since the step has failed
  void sum(const ParameterUnit& unit, const std::vector<std::vector<PartRange>>& nodes,
           const std::vector<GradientTree::Node>& mine, const at::TensorOptions& options,
           GradientTree& spans);
  /// Puts every rank's spans in place.
  /// @param mine   by this rank's spans; they may be views of `whole`
  /// @param whole  by parameter, written through their memory: nobody else notices
  void gather(const ParameterUnit& unit, const UnitTensors& mine, const UnitTensors& whole);

 private:
  dist::ProcessGroup group_;
  double seconds_ = 0;
};

/// The elements of a span.  @param whole  by parameter
at::Tensor span_of(const UnitTensors& whole, const Span& span);

}  // namespace penstock
