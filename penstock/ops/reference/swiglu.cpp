// The gated unit in plain ATen.
#include <torch/torch.h>

#include "penstock/ops/reference/decoder.h"

namespace penstock::ops::reference {

at::Tensor swiglu(const at::Tensor& x) {
  const auto parts = x.chunk(2, -1);
  return parts[0] * parts[0].sigmoid() * parts[1];
}

at::Tensor swiglu_backward(const at::Tensor& grad, const at::Tensor& x) {
  const auto parts = x.chunk(2, -1);
  const auto s = parts[0].sigmoid();
  const auto silu = parts[0] * s;
  const auto slope = s + silu * (1 - s);
  return at::cat({grad * parts[1] * slope, grad * silu}, -1);
}

}  // namespace penstock::ops::reference
