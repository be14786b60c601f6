// Kernels of the linear operator, on flattened rows. Not public: callers use ops.h. If x is bf16
// and w is f32, both operands of each product are rounded to bf16 (precision.h); b, dy and every
// result are f32.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <tuple>

namespace penstock::ops {

/// The gradients that a backward pass must compute; others stay undefined.
struct LinearGradients {
  bool x, w, b;
};
std::string describe(const LinearGradients& wanted);

using LinearGradient = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

namespace reference {
/// x [R, in], w [out, in], b [out] or undefined -> [R, out].
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
/// dy [R, out] -> (dx [R, in], dw [out, in], db [out]).
LinearGradient linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                               LinearGradients wanted);
}  // namespace reference

namespace cpu {
/// For at most 16 rows; reading w bounds the speed. A row's result depends neither on other rows
/// nor on the number of threads.
std::string declines_linear_rows(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
at::Tensor linear_rows(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
}  // namespace cpu

namespace bf16 {
std::string declines_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
std::string declines_linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                                     LinearGradients wanted);
LinearGradient linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                               LinearGradients wanted);
}  // namespace bf16

namespace xsmm {
std::string declines_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
std::string declines_linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                                     LinearGradients wanted);
LinearGradient linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                               LinearGradients wanted);
}  // namespace xsmm

namespace onednn {
std::string declines_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b);
std::string declines_linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                                     LinearGradients wanted);
LinearGradient linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                               LinearGradients wanted);
}  // namespace onednn

}  // namespace penstock::ops
