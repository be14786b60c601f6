// A module in evaluation mode for as long as a measurement takes, however that ends.
#pragma once

#include <torch/nn/module.h>
#include <torch/utils.h>

namespace penstock {

/// While alive, no gradients are recorded and the module is in evaluation mode; afterwards it is in
/// the mode that it was in.
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
