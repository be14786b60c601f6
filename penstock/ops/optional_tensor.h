// Functions of a tensor that may be undefined.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace penstock::ops {

/// The tensor; nothing if it is undefined.
inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// The tensor, contiguous; undefined if it is undefined.
inline at::Tensor contiguous_if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : at::Tensor();
}

/// The tensor's first element; null if the tensor is undefined.
template <class Element = float>
Element* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<Element>() : nullptr;
}

}  // namespace penstock::ops
