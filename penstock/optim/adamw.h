// AdamW over a module's parameters, or over pieces of them: no decay of vectors and biases,
// clipping by the global norm.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/optim/optimizer_config.h"

namespace penstock {

/// Returns the factor of the learning rate for the parameter of this name; null: 1. With decoupled
/// decay, the factor also scales the parameter's weight decay.
using LrScale = std::function<double(const std::string& name)>;

/// The elements that one update changes: a whole parameter, or consecutive elements of one.
struct Updated {
  std::string name;   ///< the parameter's name
  at::Tensor weight;  ///< contiguous
  double decay = 0, lr_scale = 1;
};
/// The module's trained parameters, each whole, with the decay that the config gives it.
std::vector<Updated> trained_parameters(const torch::nn::Module& model,
                                        const OptimizerConfig& config,
                                        const LrScale& lr_scale = {});

/// The type of the weight's moments.
at::ScalarType moment_type(const OptimizerConfig& config, const at::Tensor& weight);

/// What an update found and did.
struct UpdateOutcome {
  double gradient_norm = 0;  ///< global, before clipping
  /// "" or why nothing was updated: the gradient is not finite, and where.
  std::string failure;
};
/// The text of UpdateOutcome::failure.  @param name  of the first parameter whose gradient is not
/// finite; empty: every gradient is finite, and the global norm overflowed
std::string non_finite_text(const std::string& name);

/// The tensor `name` of the state. Throws Error if it is missing or has another shape.
const at::Tensor& saved_tensor(const std::map<std::string, at::Tensor>& state,
                               const std::string& name, at::IntArrayRef sizes);

/// Fused AdamW with decoupled decay, or Adam with L2 decay (coupled). L2 decay is added to the
/// clipped gradient, which costs one more pass. State is one pair of moments per element.
class AdamW {
 public:
  AdamW(const torch::nn::Module& model, const OptimizerConfig& config,
        const LrScale& lr_scale = {});
  /// REQUIRES: no name twice.
  AdamW(std::vector<Updated> updated, const OptimizerConfig& config);

  /// Clips the parameters' gradients and updates the parameters with them. Updates nothing if the
  /// gradients' norm is not finite. A parameter without a gradient gets a zero gradient, so that
  /// each step updates every expert. REQUIRES: whole parameters.
  UpdateOutcome update(double lr);
  /// Updates with `scale` times the gradients, which are in the order of updated(). `norm` is the
  /// global norm of the scaled gradients, for clipping. May overwrite the gradients.
  void update(const std::vector<at::Tensor>& gradients, double norm, double lr, double scale = 1);
  /// Removes the parameters' gradients, so that the next backward pass starts without gradients.
  void zero_gradients();

  const OptimizerConfig& config() const { return config_; }
  const std::vector<Updated>& updated() const { return updated_; }
  /// The moments, in the order and shapes of updated() and in the type that the config asks for.
  /// They share memory with the optimizer's moments.
  const std::vector<at::Tensor>& first_moments() const { return m_; }
  const std::vector<at::Tensor>& second_moments() const { return v_; }
  /// Moments by parameter name, "m.<name>" and "v.<name>". They share memory with the optimizer's.
  std::map<std::string, at::Tensor> state() const;
  /// Restores moments and the number of updates done. Throws Error if a moment is missing or has
  /// another shape.
  void load_state(const std::map<std::string, at::Tensor>& state, std::int64_t steps);
  /// Sets the number of updates done, for a caller that has written to the moments.
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  /// The entries of updated() with one learning rate; one adamw_step updates them together.
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
