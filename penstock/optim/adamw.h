// AdamW over a module's parameters: no decay on 1-D tensors, clipping by the global norm.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/optim/optimizer_config.h"

namespace penstock {

/// What a parameter of that name multiplies the learning rate by (its decay too); none: 1.
using LrScale = std::function<double(const std::string& name)>;

/// What an update found and did.
struct UpdateOutcome {
  double gradient_norm = 0;  ///< global, before clipping
  /// "" or why nothing was updated: the gradient is not finite, and where.
  std::string failure;
};

/// Fused AdamW with decoupled decay, or Adam with L2 (coupled), which is added to the clipped
/// gradient and costs a pass more. State is one pair of moments per trained parameter.
class AdamW {
 public:
  AdamW(torch::nn::Module& model, const OptimizerConfig& config, const LrScale& lr_scale = {});

  /// Clips the gradients as they stand and updates with them, unless their norm is not finite.
  /// Parameters without a gradient get a zero one, so that every expert is updated in every step.
  UpdateOutcome update(double lr);
  /// Forgets the gradients, so that the next backward pass starts from none.
  void zero_gradients();
  /// The gradients by parameter, zeros where there are none; the next backward pass starts from
  /// none.
  std::vector<at::Tensor> take_gradients();
  /// What it updates, in the order of take_gradients().
  const std::vector<at::Tensor>& weights() const { return weights_; }
  /// Puts gradients in the place of the parameters' own. REQUIRES: as take_gradients() gave them.
  void set_gradients(std::vector<at::Tensor> gradients);

  /// Moments by parameter name, "m.<name>" and "v.<name>"; they alias the optimizer's.
  std::map<std::string, at::Tensor> state() const;
  /// Restores moments and the number of updates done. Throws Error on a missing or misshaped one.
  void load_state(const std::map<std::string, at::Tensor>& state, std::int64_t steps);

 private:
  /// Parameters that are updated together: those of one learning rate.
  struct Group {
    double lr_scale = 1;
    std::vector<std::size_t> members;
  };

  /// The gradients in the order of weights_, made where there are none.
  std::vector<at::Tensor> gradients();
  /// Name of the first parameter whose gradient is not finite, or "".
  std::string non_finite_gradient() const;

  OptimizerConfig config_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, m_, v_;
  std::vector<double> decay_;
  std::vector<Group> groups_;
  std::int64_t steps_ = 0;
};

}  // namespace penstock
