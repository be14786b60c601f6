// The linear operator on CPU in fp32 for a few rows: the weights are read where they lie, once.
#include <ATen/ATen.h>

#include "penstock/ops/check.h"
#include "penstock/ops/cpu/dot_rows.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/linear.h"

namespace penstock::ops::cpu {
namespace {

/// Weights of a task. Threads take tasks as they are free: memory serves them unevenly.
constexpr std::int64_t kGrain = 16384;

PENSTOCK_PER_CPU void linear_columns(DotOperands operands, std::int64_t rows, const float* bias,
                                     std::int64_t begin, std::int64_t end) {
  operands.w += begin * operands.w_stride;
  operands.y += begin;
  dot_rows(operands, rows, end - begin);
  if (!bias) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* y = operands.y + r * operands.y_stride;
    for (std::int64_t j = begin; j < end; ++j) y[j - begin] += bias[j];
  }
}

}  // namespace

std::string declines_linear_rows(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  if (const std::string reason = declines({x, w, b}); !reason.empty()) return reason;
  if (x.size(0) == 0) return "no rows";
  return x.size(0) > kFewRows ? "more than 16 rows" : "";
}

at::Tensor linear_rows(const at::Tensor& x_in, const at::Tensor& w_in, const at::Tensor& b_in) {
  const at::Tensor x = x_in.contiguous(), w = w_in.contiguous();
  const at::Tensor b = b_in.defined() ? b_in.contiguous() : b_in;
  const std::int64_t rows = x.size(0), in = x.size(1), out = w.size(0);
  at::Tensor y = at::empty({rows, out}, x.options());
  const DotOperands operands{.x = x.data_ptr<float>(),
                             .x_stride = in,
                             .w = w.data_ptr<float>(),
                             .w_stride = in,
                             .depth = in,
                             .y = y.data_ptr<float>(),
                             .y_stride = out};
  const float* bias = b.defined() ? b.data_ptr<float>() : nullptr;
  const std::int64_t columns = (1 + kGrain / (kDotColumns * (in + 1))) * kDotColumns;  // of a task
  const std::int64_t tasks = (out + columns - 1) / columns;
  const auto body = [=](std::int64_t task, int) {
    linear_columns(operands, rows, bias, task * columns, std::min(out, (task + 1) * columns));
  };
  if (tasks > 1) {
    parallel_tasks(tasks, body);
  } else if (tasks == 1) {
    const FlushDenormals flush;
    body(0, 0);
  }
  return y;
}

}  // namespace penstock::ops::cpu
