// The tensors of one router while an upcycled model is made.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace penstock {

/// A scorer's parameters by name, f32.
using RouterTensors = std::map<std::string, at::Tensor>;

}  // namespace penstock
