// Pointwise functions of ATen whose bits do not depend on a number's place.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace penstock::ops {

/// f(x) for a pointwise f. ATen computes the numbers after the last whole vector by other code, so
/// a row's bits would depend on the number of rows before it. Without gradients this function pads
/// x, so that ATen computes all numbers by vectors.
template <class Function>
at::Tensor pointwise_alike(const at::Tensor& x, Function f) {
  constexpr std::int64_t kVectors = 32;  // numbers: two vectors of AVX-512, more of any other
  const std::int64_t rest = x.numel() % kVectors;
  if (at::GradMode::is_enabled() || !x.is_cpu() || rest == 0) return f(x);
  at::Tensor padded = at::zeros({x.numel() + kVectors - rest}, x.options());
  padded.narrow(0, 0, x.numel()).copy_(x.reshape(-1));
  return f(padded).narrow(0, 0, x.numel()).view(x.sizes());
}

}  // namespace penstock::ops
