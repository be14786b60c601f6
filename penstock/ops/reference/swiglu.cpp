// The gated unit in plain ATen.
#include "penstock/ops/swiglu.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {

at::Tensor swiglu(const at::Tensor& x) {
  const std::int64_t f = x.size(-1) / 2;
  const auto gate = x.narrow(-1, 0, f), up = x.narrow(-1, f, f);
  return gate * gate.sigmoid() * up;
}

at::Tensor swiglu_backward(const at::Tensor& grad, const at::Tensor& x) {
  const std::int64_t f = x.size(-1) / 2;
  const auto gate = x.narrow(-1, 0, f), up = x.narrow(-1, f, f);
  const auto s = gate.sigmoid();
  const auto silu = gate * s;
  return at::cat({grad * up * (s + silu * (1 - s)), grad * silu}, -1);
}

}  // namespace penstock::ops::reference
