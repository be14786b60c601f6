// Pointwise functions of ATen with the same bits wherever a number stands.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace penstock::ops {

/// f(x) for a pointwise f. ATen computes the numbers behind the last whole vectors by other code
/// than the rest, so that a row's bits would depend on how many rows come before it; without
/// gradients, where rows are to be the same alone and beside others, no number stands there.
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
