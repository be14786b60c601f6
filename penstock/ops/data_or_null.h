// The data of a tensor that may be absent.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock::ops {

/// The tensor's first element; null if the tensor is undefined.
template <class Element = float>
Element* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<Element>() : nullptr;
}

}  // namespace penstock::ops
