// Exchanges of one unit of parameters between the ranks of a group. Gradients go to the ranks that
// add them up, and each rank's spans go to all ranks.
#pragma once

#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/ranks/parameter_units.h"

namespace penstock {

/// Contiguous tensors, one for each of ParameterUnit::parameters or one for each span of a rank.
using UnitTensors = std::vector<at::Tensor>;

/// Only one thread at a time may use an exchange.
class UnitExchange {
 public:
  UnitExchange() = default;
  explicit UnitExchange(dist::ProcessGroup group) : group_(std::move(group)) {}

  /// Wall time in operations so far.
  double seconds() const { return seconds_; }

  /// Adds this rank's spans of all ranks' nodes to a tree of spans.
  /// @param nodes  each rank's nodes; equal on all ranks
  /// @param mine   this rank's nodes, with whole gradients. Empty if the step has failed; the other
  ///               ranks then get zeros.
  void sum(const ParameterUnit& unit, const std::vector<std::vector<PartRange>>& nodes,
           const std::vector<GradientTree::Node>& mine, const at::TensorOptions& options,
           GradientTree& spans);
  /// Copies every rank's spans into `whole`, on every rank.
  /// @param mine   by this rank's spans; may be views of `whole`
  /// @param whole  by parameter. Written directly in memory, so autograd does not notice.
  void gather(const ParameterUnit& unit, const UnitTensors& mine, const UnitTensors& whole);

 private:
  dist::ProcessGroup group_;
  double seconds_ = 0;
};

/// The elements of a span.  @param whole  by parameter
at::Tensor span_of(const UnitTensors& whole, const Span& span);

}  // namespace penstock
