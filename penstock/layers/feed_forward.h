// The dense SwiGLU feed-forward layer.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace penstock {

/// y = down · (silu(g) ⊙ u),  [g; u] = gate_up · x.  Gate and up are one tensor [2f, d], gate
/// first.
class FeedForward : public torch::nn::Module {
 public:
  FeedForward(std::int64_t d_model, std::int64_t d_ffn, double init_std, double output_std);
  /// @param x [..., d].  @return the same shape.
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor gate_up_;  // [2f, d]
  at::Tensor down_;     // [d, f]
};

}  // namespace penstock
