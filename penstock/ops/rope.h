// Kernels of the rotary position embedding. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace penstock::ops {

namespace reference {
/// Turns the pairs by +angle, or by −angle when `inverse`, which is the gradient.
at::Tensor rope(const at::Tensor& x, const at::Tensor& positions, double base, bool adjacent,
                bool inverse);
}  // namespace reference

namespace cpu {
/// The same; sines and cosines are computed once per call and position, in f64.
at::Tensor rope(const at::Tensor& x, const at::Tensor& positions, double base, bool adjacent,
                bool inverse);
}  // namespace cpu

}  // namespace penstock::ops
