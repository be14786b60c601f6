// Keeps a module in evaluation mode during a measurement, also if it throws.
#pragma once

#include <torch/nn/module.h>
#include <torch/utils.h>

namespace penstock {

/// During its life, the module is in evaluation mode and no gradients are recorded. The destructor
/// restores the module's mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  ~EvaluationMode() { module_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::NoGradGuard no_grad_;
  torch::nn::Module& module_;
  bool was_training_;
};

}  // namespace penstock
