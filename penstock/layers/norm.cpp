#include "penstock/layers/norm.h"

#include <torch/torch.h>

#include "penstock/ops/ops.h"

namespace penstock {

RmsNorm::RmsNorm(std::int64_t width, double eps)
    : weight_(register_parameter("weight", torch::ones({width}))), eps_(eps) {}

at::Tensor RmsNorm::forward(const at::Tensor& x) { return ops::rms_norm(x, weight_, eps_); }

at::Tensor RmsNorm::forward(Residual& x) {
  if (!x.delta.defined()) return forward(x.stream);
  auto [sum, normed] = ops::add_rms_norm(x.stream, x.delta, weight_, eps_);
  x = {.stream = sum};
  return normed;
}

}  // namespace penstock
