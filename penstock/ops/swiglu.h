// Kernels of the gated unit. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock::ops {

namespace reference {
at::Tensor swiglu(const at::Tensor& x);
at::Tensor swiglu_backward(const at::Tensor& grad, const at::Tensor& x);
}  // namespace reference

namespace cpu {
/// Each takes one sweep. The bits do not depend on the number of threads.
at::Tensor swiglu(const at::Tensor& x);
at::Tensor swiglu_backward(const at::Tensor& grad, const at::Tensor& x);
}  // namespace cpu

}  // namespace penstock::ops
