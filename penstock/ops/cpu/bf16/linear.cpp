// The linear operator on CPU with products in bf16. The caller rounds the rows x. The backward pass
// rounds dy once for both of its products.
#include "penstock/ops/linear.h"

#include <ATen/ATen.h>

#include <algorithm>

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

/// Rows of dy that stay in cache between their two products. The sums of dw are in order of depth,
/// so they are the same for any even number of rows.
std::int64_t chunk_rows(std::int64_t columns) {
  constexpr std::int64_t kValues = 1 << 20, kLeast = 512;
  return std::max<std::int64_t>(1, kValues / columns / kLeast) * kLeast;
}

}  // namespace

std::string declines_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor&) {
  return declines_pair(x, w);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const std::int64_t rows = x.size(0), in = w.size(1), out = w.size(0);
  const Panels panels = transposed_panels(w.contiguous());
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
  if (wanted.x) dx = at::empty({rows, in}, dy.options());
  if (wanted.w) dw = at::empty({out, in}, dy.options());
  if (wanted.b) db = cpu::column_sums(dy);
  if (!wanted.x && !wanted.w) return {dx, dw, db};
  const Panels panels = wanted.x ? row_panels(w.contiguous()) : Panels();
  const at::Tensor operand = x.contiguous();
  const std::int64_t chunk = chunk_rows(out);
  for (std::int64_t from = 0; from < rows; from += chunk) {
    const std::int64_t count = std::min(chunk, rows - from);
    const at::Tensor part = rounded(dy.narrow(0, from, count));
    if (wanted.x)
      blocked_product({.rows = count, .columns = in, .depth = out, .c_row = in}, pair_rows(part),
                      panels, dx.data_ptr<float>() + from * in);
    if (wanted.w)
      blocked_product(
          {.rows = out, .columns = in, .depth = count, .c_row = in, .accumulate = from > 0},
          row_panels(part), row_panels(operand.narrow(0, from, count)), dw.data_ptr<float>());
  }
  return {dx, dw, db};
}

}  // namespace penstock::ops::bf16
