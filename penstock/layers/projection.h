// A linear map with the project's own initialisation; the product is ops::linear.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace penstock {

/// y = x · weightᵀ + bias.  weight [out, in]: drawn(std) of
/// layers/initial.h; bias [out], where wanted, 0.
class Projection : public torch::nn::Module {
 public:
  Projection(std::int64_t in, std::int64_t out, bool bias, double std);
  at::Tensor forward(const at::Tensor& x);
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_, bias_;
};

}  // namespace penstock
