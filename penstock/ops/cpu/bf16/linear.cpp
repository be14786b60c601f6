// The linear operator on CPU with products in bf16. The forward pass gets its rows rounded; the
// backward pass rounds dy once for both of its products.
#include "penstock/ops/linear.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/bf16/blocked_product.h"
#include "penstock/ops/cpu/bf16/declines.h"
#include "penstock/ops/cpu/bf16/rounding.h"
#include "penstock/ops/cpu/column_sums.h"

namespace penstock::ops::bf16 {
namespace {

std::string declines_pair(const at::Tensor& x, const at::Tensor& w) {
  if (std::string reason = declines(x, w); !reason.empty()) return reason;
  return w.size(0) == 0 || w.size(1) == 0 || x.size(0) == 0 ? "an empty operand" : "";
}

}  // namespace

std::string declines_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor&) {
  return declines_pair(x, w);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const std::int64_t rows = x.size(0), in = w.size(1), out = w.size(0);
  const Panels panels = turned_panels(w.contiguous());
  at::Tensor y = at::empty({rows, out}, w.options().requires_grad(false));
  if (b.defined()) y.copy_(b.expand({rows, out}));
  blocked_product(
      {.rows = rows, .columns = out, .depth = in, .c_row = out, .accumulate = b.defined()},
      pair_rows(x.contiguous()), panels, y.data_ptr<float>());
  return y;
}

std::string declines_linear_backward(const at::Tensor&, const at::Tensor& x, const at::Tensor& w,
                                     LinearGradients) {
  return declines_pair(x, w);
}

LinearGradient linear_backward(const at::Tensor& dy_in, const at::Tensor& x, const at::Tensor& w,
                               LinearGradients wanted) {
  const at::Tensor dy = dy_in.contiguous();
  const std::int64_t rows = dy.size(0), out = w.size(0), in = w.size(1);
  at::Tensor dx, dw, db;
  const at::Tensor rounded_dy = wanted.x || wanted.w ? rounded(dy) : at::Tensor();
  if (wanted.x) {
    dx = at::empty({rows, in}, dy.options());
    blocked_product({.rows = rows, .columns = in, .depth = out, .c_row = in}, pair_rows(rounded_dy),
                    row_panels(w.contiguous()), dx.data_ptr<float>());
  }
  if (wanted.w) {
    dw = at::empty({out, in}, dy.options());
    blocked_product({.rows = out, .columns = in, .depth = rows, .c_row = in},
                    row_panels(rounded_dy), row_panels(x.contiguous()), dw.data_ptr<float>());
  }
  if (wanted.b) db = cpu::column_sums(dy);
  return {dx, dw, db};
}

}  // namespace penstock::ops::bf16
