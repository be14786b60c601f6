// The linear operator on CPU in fp32: three matrix products by oneDNN.
#include "penstock/ops/linear.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/column_sums.h"
#include "penstock/ops/cpu/onednn/matmul.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock::ops::onednn {
namespace {

std::string declines_pair(const at::Tensor& a, const at::Tensor& b) {
  if (!a.device().is_cpu() || !b.device().is_cpu()) return "not on the CPU";
  if (a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat) return "not f32";
  return {};
}

/// REQUIRES: 2-D, contiguous f32.
Matrix matrix(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), tensor.size(0), tensor.size(1),
          std::max<std::int64_t>(1, tensor.size(1)), 1};
}

}  // namespace

std::string declines_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor&) {
  return declines_pair(x, w);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const at::Tensor rows = x.contiguous(), weight = w.contiguous();
  const at::Tensor bias = contiguous_if_defined(b);
  at::Tensor y = at::empty({x.size(0), w.size(0)}, x.options());  // [R, out]
  matmul(matrix(rows), matrix(weight).transposed(), data_or_null(bias), matrix(y));
  return y;
}

std::string declines_linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                                     LinearGradients) {
  const std::string reason = declines_pair(x, w);
  return reason.empty() ? declines_pair(dy, w) : reason;
}

LinearGradient linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                               LinearGradients wanted) {
  const at::Tensor grad = dy.contiguous();
  at::Tensor dx, dw, db;
  if (wanted.x) {
    const at::Tensor weight = w.contiguous();
    dx = at::empty(x.sizes(), x.options());  // [R, in]
    matmul(matrix(grad), matrix(weight), nullptr, matrix(dx));
  }
  if (wanted.w) {
    const at::Tensor rows = x.contiguous();
    dw = at::empty(w.sizes(), w.options());  // [out, in]
    matmul(matrix(grad).transposed(), matrix(rows), nullptr, matrix(dw));
  }
  if (wanted.b) db = cpu::column_sums(grad);
  return {dx, dw, db};
}

}  // namespace penstock::ops::onednn
