// The tensors of one router while an upcycled model is made.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace penstock {

class Scorer;

/// A scorer's parameters and buffers by name, f32.
using RouterTensors = std::map<std::string, at::Tensor>;

/// The parameters and buffers of the scorer, whose memory they share.
RouterTensors tensors_of(const Scorer& scorer);

}  // namespace penstock
