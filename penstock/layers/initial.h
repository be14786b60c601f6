// How layers' matrices start.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock {

/// The tensor filled with N(mean, std²) from libtorch's default CPU generator. With a negative std
/// it stays as it is: its values are read later.
inline at::Tensor drawn(const at::Tensor& tensor, double std, double mean = 0) {
  return std < 0 ? tensor : tensor.normal_(mean, std);
}

}  // namespace penstock
