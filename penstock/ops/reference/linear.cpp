// ATen reference of the linear operator.
#include "penstock/ops/linear.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  return b.defined() ? at::addmm(b, x, w.t()) : at::mm(x, w.t());
}

LinearGradient linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                               LinearGradients wanted) {
  at::Tensor dx, dw, db;
  if (wanted.x) dx = at::mm(dy, w);
  if (wanted.w) dw = at::mm(dy.t(), x);
  if (wanted.b) db = dy.sum(0);
  return {dx, dw, db};
}

}  // namespace penstock::ops::reference
