// Kernels of RMSNorm, alone and after a residual addition. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace penstock::ops {

/// y [..., d] and each row's reciprocal root mean square [R].
using RmsNormResult = std::tuple<at::Tensor, at::Tensor>;
/// x + delta [..., d], then RmsNormResult of this sum.
using AddRmsNormResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
/// Gradients of x and gain.
using RmsNormGradient = std::tuple<at::Tensor, at::Tensor>;

namespace reference {
RmsNormResult rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps);
AddRmsNormResult add_rms_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& gain,
                              double eps);
/// `residual` is another gradient of x, which is added to the norm's gradient; undefined if there
/// is none.
RmsNormGradient rms_norm_backward(const at::Tensor& grad, const at::Tensor& residual,
                                  const at::Tensor& x, const at::Tensor& gain,
                                  const at::Tensor& reciprocal_rms);
}  // namespace reference

namespace cpu {
/// Takes one sweep forward and one backward. The bits do not depend on the number of threads.
RmsNormResult rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps);
AddRmsNormResult add_rms_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& gain,
                              double eps);
RmsNormGradient rms_norm_backward(const at::Tensor& grad, const at::Tensor& residual,
                                  const at::Tensor& x, const at::Tensor& gain,
                                  const at::Tensor& reciprocal_rms);
}  // namespace cpu

}  // namespace penstock::ops
