// What a step computes, part by part. Which parts a process computes, and in which order, is
// accumulate.h's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/models/language_model.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

/// How much a part counts in the step's means, and in what the step minimises:
///   Σ_parts weight · objective / divisor.
struct PartShare {
  double weight = 1, divisor = 1;
  double of(double value) const { return value * weight / divisor; }
};

/// The tensors that one process's layers send to the next one's, for a part: a tensor of each of
/// its passes.
struct StreamForm {
  std::int64_t passes = 1;
  std::vector<std::int64_t> sizes;  ///< of ModelOutput::stream
  at::TensorOptions options;
};

/// What a part is computed with.
struct PartInput {
  std::size_t index = 0;
  PartShare share;
  RoutingContext context;  ///< with a generator of the part's own
  ModelMemory memory;      ///< what the part of that index handed on in the step before
  IndexRange layers;       ///< to pass through; empty: all that the model holds
  /// Of each pass what the layer before gave, leaves; none where the first layer is among them.
  std::vector<at::Tensor> streams;
  LayerWatch watch;  ///< may be null
  RoutingTap tap;
};

/// What a part computed forward.
struct PartOutcome {
  /// Scalar with a graph: what the layers and the head add to the objective. Undefined where these
  /// layers add nothing and are not the last.
  at::Tensor objective;
  double loss = 0;                  ///< the cross-entropy in it
  std::vector<at::Tensor> streams;  ///< of each pass, for the layer that follows
  /// What is minimised besides, whose gradients are known: of these tensors, shared already.
  double besides = 0;
  std::vector<at::Tensor> roots, gradients;
  ModelMemory memory;  ///< for the part of this index in the next step
};

/// The parts of one step.
class StepWork {
 public:
  virtual ~StepWork() = default;
  /// The model whose layers and balancers are at work.
  virtual LanguageModel& model() = 0;
  virtual std::size_t parts() const = 0;
  virtual PartShare share(std::size_t part) const = 0;
  /// Passes over each part.
  virtual int passes() const { return 1; }
  /// Of works whose model may hold some layers only.
  virtual StreamForm stream_form(std::size_t part) const;
  /// A part forward. Adds what only the work knows (tokens, accuracy, ...) to the report, once:
  /// with the last layer.
  virtual PartOutcome forward(const PartInput& part, StepReport& report) = 0;
  /// Whether balancers are to know what all parts ask of the experts, which takes another forward
  /// pass of each where there are several.
  virtual bool pools() const { return false; }
  /// The part's forward passes again, so that each layer's output is seen, and routing by the
  /// part's tap.
  virtual void replay(const PartInput& part, const HiddenTap& tap) = 0;
  /// Once after all parts of all ranks.  @param assignments  of all layers and passes
  virtual void finish(double assignments, StepReport& report) {
    static_cast<void>(assignments), static_cast<void>(report);
  }
};

}  // namespace penstock
