// Normalisation layers.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace penstock {

/// Root-mean-square norm with a trained gain (1 at the start).  See ops::rms_norm.
class RmsNorm : public torch::nn::Module {
 public:
  RmsNorm(std::int64_t width, double eps);
  /// @param x [..., d].  @return the same shape.
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;  // [d]
  double eps_;
};

}  // namespace penstock
