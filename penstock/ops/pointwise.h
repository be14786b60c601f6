// Pointwise functions of ATen whose bits do not depend on an element's position.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace penstock::ops {

/// f(x) for a pointwise f. ATen computes the elements after the last whole vector with other code,
/// so a row's bits would depend on the number of rows before it. Without gradients this function
/// pads x, so that ATen computes all elements with its vector code.
template <class Function>
at::Tensor pointwise_alike(const at::Tensor& x, Function f) {
  constexpr std::int64_t kVectors = 32;  // elements: two AVX-512 vectors, or more narrower ones
  const std::int64_t rest = x.numel() % kVectors;
  if (at::GradMode::is_enabled() || !x.is_cpu() || rest == 0) return f(x);
  at::Tensor padded = at::zeros({x.numel() + kVectors - rest}, x.options());
  padded.narrow(0, 0, x.numel()).copy_(x.reshape(-1));
  return f(padded).narrow(0, 0, x.numel()).view(x.sizes());
}

}  // namespace penstock::ops
