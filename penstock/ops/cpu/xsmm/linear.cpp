// The linear operator on CPU in fp32 through blocked products of libxsmm's kernels. It copies
// weights into panels, and reads rows in place. It is faster than a general library for many rows.
#include "penstock/ops/linear.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "penstock/base/error.h"
#include "penstock/ops/cpu/column_sums.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"
#include "penstock/ops/cpu/xsmm/blocked_product.h"
#include "penstock/ops/cpu/xsmm/outer_product.h"
#include "penstock/ops/cpu/xsmm/product.h"

namespace penstock::ops::xsmm {
namespace {

constexpr std::int64_t kFewestRows = 64, kFewestColumns = 16;

std::string declines_shape(const at::Tensor& x, const at::Tensor& w) {
  for (const at::Tensor* tensor : {&x, &w}) {
    if (!tensor->device().is_cpu()) return "not on the CPU";
    if (tensor->scalar_type() != at::kFloat) return "not f32";
  }
  if (!supported()) return "libxsmm compiles nothing for this processor";
  if (x.size(0) < kFewestRows) return concat("fewer than ", kFewestRows, " rows");
  if (w.size(0) < kFewestColumns || w.size(1) < kFewestColumns)
    return concat("in or out below ", kFewestColumns);
  return {};
}

/// Wᵀ of W [out, in], in the panels of blocked_product. The panels are dense, so that a panel's
/// rows do not share a few cache sets.
at::Tensor transposed_panels(const at::Tensor& w) {
  const std::int64_t out = w.size(0), in = w.size(1);
  at::Tensor result = at::empty({in, out}, w.options());
  const float* from = w.data_ptr<float>();
  float* to = result.data_ptr<float>();
  constexpr std::int64_t kGroup = 16;  // one line of each row of a panel
  cpu::parallel_ranges((out + kGroup - 1) / kGroup, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * kGroup; first < std::min(end * kGroup, out);
         first += kGroup) {
      const std::int64_t panel = first / kColumns * kColumns;
      cpu::transpose(std::min(kGroup, out - first), in, from + first * in, in,
                     to + panel * in + first - panel, std::min(kColumns, out - panel));
    }
  });
  return result;
}

/// W [out, in] in the panels of blocked_product. In place, the rows of a panel would share a few
/// cache sets where the width of W is a power of two.
at::Tensor row_panels(const at::Tensor& w) {
  const std::int64_t out = w.size(0), in = w.size(1);
  at::Tensor result = at::empty({out, in}, w.options().requires_grad(false));
  const float* from = w.data_ptr<float>();
  float* to = result.data_ptr<float>();
  cpu::parallel_ranges(out, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = 0; column < in; column += kColumns) {
      const std::int64_t width = std::min(kColumns, in - column);
      for (std::int64_t i = begin; i < end; ++i)
        std::memcpy(to + column * out + i * width, from + i * in + column, width * sizeof(float));
    }
  });
  return result;
}

}  // namespace

std::string declines_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor&) {
  return declines_shape(x, w);
}

at::Tensor linear(const at::Tensor& x_in, const at::Tensor& w_in, const at::Tensor& b) {
  const at::Tensor x = x_in.contiguous(), w = transposed_panels(w_in.contiguous());
  const std::int64_t rows = x.size(0), in = x.size(1), out = w.size(1);
  at::Tensor y = at::empty({rows, out}, x.options());
  if (b.defined()) y.copy_(b.expand({rows, out}));
  blocked_product({.rows = rows,
                   .columns = out,
                   .depth = in,
                   .a_stride = in,
                   .c_stride = out,
                   .accumulate = b.defined()},
                  x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>());
  return y;
}

std::string declines_linear_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                                     LinearGradients) {
  const std::string reason = declines_shape(x, w);
  return reason.empty() ? declines_shape(dy, w) : reason;
}

LinearGradient linear_backward(const at::Tensor& dy_in, const at::Tensor& x_in,
                               const at::Tensor& w_in, LinearGradients wanted) {
  const at::Tensor dy = dy_in.contiguous();
  const std::int64_t rows = dy.size(0), out = w_in.size(0), in = w_in.size(1);
  at::Tensor dx, dw, db;
  if (wanted.x) {
    const at::Tensor w = row_panels(w_in.contiguous());
    dx = at::empty({rows, in}, dy.options());
    blocked_product({.rows = rows, .columns = in, .depth = out, .a_stride = out, .c_stride = in},
                    dy.data_ptr<float>(), w.data_ptr<float>(), dx.data_ptr<float>());
  }
  if (wanted.w) dw = outer_product(dy, x_in.contiguous());
  if (wanted.b) db = cpu::column_sums(dy);
  return {dx, dw, db};
}

}  // namespace penstock::ops::xsmm
