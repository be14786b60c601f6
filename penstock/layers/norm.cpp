#include "penstock/layers/norm.h"

#include <torch/types.h>

#include "penstock/ops/ops.h"

namespace penstock {

RmsNorm::RmsNorm(std::int64_t width, double eps)
    : weight_(register_parameter("weight", torch::ones({width}))), eps_(eps) {}

void RmsNorm::describe(std::int64_t width, const LayerTensors& at, GradientShare gradient) {
  at.add("weight", "weight", {width}, TensorRole::rest, gradient);
}

at::Tensor RmsNorm::forward(const at::Tensor& x) { return ops::rms_norm(x, weight_, eps_); }

at::Tensor RmsNorm::forward(Residual& x) {
  if (!x.delta.defined()) return forward(x.stream);
  auto [sum, normed] = ops::add_rms_norm(x.stream, x.delta, weight_, eps_);
  x = {.stream = sum};
  return normed;
}

LayerNorm::LayerNorm(std::int64_t width, double eps)
    : weight_(register_parameter("weight", torch::ones({width}))),
      bias_(register_parameter("bias", torch::zeros({width}))),
      eps_(eps) {}

void LayerNorm::describe(std::int64_t width, const LayerTensors& at) {
  for (const char* const name : {"weight", "bias"})
    at.add(name, name, {width}, TensorRole::rest, GradientShare::of_rows);
}

void LayerNorm::initialize(double gain_std, const InitialDraws& draws) {
  draws.normal("weight", weight_, gain_std, 1);
}

at::Tensor LayerNorm::forward(const at::Tensor& x) {
  return torch::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
}

}  // namespace penstock
