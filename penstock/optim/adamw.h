// AdamW over a module's parameters, or over pieces of them: no decay on 1-D tensors, clipping by
// the global norm.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/optim/optimizer_config.h"

namespace penstock {

/// The factor of the learning rate, and of its decay, for the parameter of this name; none: 1.
using LrScale = std::function<double(const std::string& name)>;

/// The elements that one update changes: a whole parameter, or consecutive elements of one.
struct Updated {
  std::string name;   ///< of the parameter
  at::Tensor weight;  ///< contiguous
  double decay = 0, lr_scale = 1;
};
/// The module's trained parameters, each whole, with the decay that the config gives it.
std::vector<Updated> trained_parameters(const torch::nn::Module& model,
                                        const OptimizerConfig& config,
                                        const LrScale& lr_scale = {});

/// The type of a weight's moments.
at::ScalarType moment_type(const OptimizerConfig& config, const at::Tensor& weight);

/// What an update found and did.
struct UpdateOutcome {
  double gradient_norm = 0;  ///< global, before clipping
  /// "" or why nothing was updated: the gradient is not finite, and where.
  std::string failure;
};
/// What UpdateOutcome::failure says.  @param name  of the first parameter whose gradient is not
/// finite; empty: each is
std::string non_finite_text(const std::string& name);

/// The tensor of that name. Throws Error where it is missing or has another shape.
const at::Tensor& saved_tensor(const std::map<std::string, at::Tensor>& state,
                               const std::string& name, at::IntArrayRef sizes);

/// Fused AdamW with decoupled decay, or Adam with L2 (coupled), which is added to the clipped
/// gradient and costs a pass more. State is one pair of moments per element.
class AdamW {
 public:
  AdamW(const torch::nn::Module& model, const OptimizerConfig& config,
        const LrScale& lr_scale = {});
  /// REQUIRES: no name twice.
  AdamW(std::vector<Updated> updated, const OptimizerConfig& config);

  /// Clips the parameters' gradients as they stand and updates with them, unless their norm is not
  /// finite. Parameters without a gradient get a zero one, so that every expert is updated in every
  /// step. REQUIRES: whole parameters.
  UpdateOutcome update(double lr);
  /// Updates with `scale` times the gradients by updated(), clipped by the given norm of that. They
  /// may be written to.
  void update(const std::vector<at::Tensor>& gradients, double norm, double lr, double scale = 1);
  /// Forgets the parameters' gradients, so that the next backward pass starts from none.
  void zero_gradients();

  const OptimizerConfig& config() const { return config_; }
  const std::vector<Updated>& updated() const { return updated_; }
  /// By updated(), of the same shapes, of the type that the config asks for. They alias the
  /// optimizer's.
  const std::vector<at::Tensor>& first_moments() const { return m_; }
  const std::vector<at::Tensor>& second_moments() const { return v_; }
  /// Moments by parameter name, "m.<name>" and "v.<name>"; they alias the optimizer's.
  std::map<std::string, at::Tensor> state() const;
  /// Restores moments and the number of updates done. Throws Error on a missing or misshaped one.
  void load_state(const std::map<std::string, at::Tensor>& state, std::int64_t steps);
  /// The number of updates done, for moments that have been written to.
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  /// What is updated together: the elements of one learning rate.
  struct Group {
    double lr_scale = 1;
    std::vector<std::size_t> members;
  };

  OptimizerConfig config_;
  std::vector<Updated> updated_;
  std::vector<at::Tensor> m_, v_;
  std::vector<Group> groups_;
  std::int64_t steps_ = 0;
};

}  // namespace penstock
