// The interface of a step's work, part by part. It does not decide which parts a process computes,
// or in which order; accumulate.h does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/models/language_model.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

/// A part's weight in the step's means and in the minimised objective:
///   Σ_parts weight · objective / divisor.
struct PartShare {
  double weight = 1, divisor = 1;
  double of(double value) const { return value * weight / divisor; }
};

/// The form of the tensors that a stage sends to the next stage for a part: one tensor for each of
/// the part's passes.
struct StreamForm {
  std::int64_t passes = 1;
  std::vector<std::int64_t> sizes;  ///< sizes of ModelOutput::stream
  at::TensorOptions options;
};

/// The input of a part.
struct PartInput {
  std::size_t index = 0;
  PartShare share;
  RoutingContext context;  ///< with the part's own generator
  ModelMemory memory;      ///< left by the part of the same index in the step before
  IndexRange layers;       ///< layers to pass through; empty: all layers that the model holds
  /// The output of the layer before `layers`, for each pass; leaves of the graph. Empty if `layers`
  /// include the first layer.
  std::vector<at::Tensor> streams;
  LayerWatch watch;  ///< may be null
  RoutingTap tap;
};

/// The result of a part's forward pass.
struct PartOutcome {
  /// Scalar with a graph: the objective that the layers and the head add. Undefined if the layers
  /// add nothing and are not the last.
  at::Tensor objective;
  double loss = 0;                  ///< the cross-entropy in the objective
  std::vector<at::Tensor> streams;  ///< of each pass, for the layer that follows
  /// A further term of the objective, which has no graph. `gradients` are its gradients for the
  /// tensors `roots`, with the part's share already applied.
  double besides = 0;
  std::vector<at::Tensor> roots, gradients;
  ModelMemory memory;  ///< for the part of this index in the next step
};

/// The parts of one step.
class StepWork {
 public:
  virtual ~StepWork() = default;
  /// The model that the parts pass through.
  virtual LanguageModel& model() = 0;
  virtual std::size_t parts() const = 0;
  virtual PartShare share(std::size_t part) const = 0;
  /// Passes over each part.
  virtual int passes() const { return 1; }
  /// Only for work whose model may hold a part of the layers; the default fails (asserted).
  virtual StreamForm stream_form(std::size_t part) const;
  /// Computes a part forward. Adds the work's own numbers (tokens, accuracy, ...) to the report
  /// once for each part, in the pass through the last layer.
  virtual PartOutcome forward(const PartInput& part, StepReport& report) = 0;
  /// Whether balancers need the expert loads of all parts. With several parts this takes another
  /// forward pass of each part.
  virtual bool pools() const { return false; }
  /// Makes the part's forward passes again. `tap` gets each layer's output; the part's own tap gets
  /// the routing.
  virtual void replay(const PartInput& part, const HiddenTap& tap) = 0;
  /// Called once after all parts of all ranks.  @param assignments  of all layers and
  /// passes, with those of idle experts
  virtual void finish(double assignments, StepReport& report) {
    static_cast<void>(assignments), static_cast<void>(report);
  }
};

}  // namespace penstock
