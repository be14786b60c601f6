// One training step of a single layer: forward, backward with a given output gradient, and the
// optimizer's update. The layer benchmark and `penstock doctor` use it. step.h makes a model's
// step, with parts, ranks and balancers.
#pragma once

#include <functional>
#include <utility>

#include "penstock/layers/moe.h"
#include "penstock/optim/adamw.h"

namespace penstock {

/// The result of a step of a layer.
struct LayerStepOutcome {
  MoeOutput output;  ///< its routing is empty if the layer has none
  UpdateOutcome update;
  double forward_seconds = 0, backward_seconds = 0, update_seconds = 0;  ///< by profile_seconds()
};

/// A layer and its optimizer's state.
class LayerStep {
 public:
  using Forward = std::function<MoeOutput(const at::Tensor& x, const RoutingContext& context)>;

  /// @param layer  the layer whose parameters are updated
  /// @param forward  the layer's pass over x [T, d] or [B, L, d]
  /// REQUIRES: everything that `forward` refers to outlives this object.
  LayerStep(const torch::nn::Module& layer, Forward forward, const OptimizerConfig& config)
      : forward_(std::move(forward)), optimizer_(layer, config) {}

  /// Minimises Σ y · direction + the router's auxiliary loss. Gradients stay until the next step.
  /// Balancers do not move.
  /// @param x, direction  of y's shape. REQUIRES: x has no gradient yet, or requires none.
  LayerStepOutcome advance(const at::Tensor& x, const at::Tensor& direction,
                           const RoutingContext& context, double lr);

  const AdamW& optimizer() const { return optimizer_; }

 private:
  Forward forward_;
  AdamW optimizer_;
};

}  // namespace penstock
