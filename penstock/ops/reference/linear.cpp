// ATen reference of the linear operator.
#include "penstock/ops/linear.h"

#include <ATen/ATen.h>

#include "penstock/ops/machine/precision.h"

namespace penstock::ops::reference {

at::Tensor linear(const at::Tensor& x_in, const at::Tensor& w_in, const at::Tensor& b) {
  const at::Tensor x = x_in.to(w_in.scalar_type()), w = rounded_like(x_in, w_in);
  return b.defined() ? at::addmm(b, x, w.t()) : at::mm(x, w.t());
}

LinearGradient linear_backward(const at::Tensor& dy_in, const at::Tensor& x_in,
                               const at::Tensor& w_in, LinearGradients wanted) {
  const at::Tensor x = x_in.to(w_in.scalar_type()), w = rounded_like(x_in, w_in),
                   dy = rounded_like(x_in, dy_in);
  at::Tensor dx, dw, db;
  if (wanted.x) dx = at::mm(dy, w);
  if (wanted.w) dw = at::mm(dy.t(), x);
  if (wanted.b) db = dy_in.sum(0);
  return {dx, dw, db};
}

}  // namespace penstock::ops::reference
