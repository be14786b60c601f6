// The linear operator on CPU in fp32 for a few rows. It reads the weights once, in place, in any
// type.
#include "penstock/ops/cpu/few_rows/linear_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/check.h"
#include "penstock/ops/cpu/few_rows/dot_rows.h"
#include "penstock/ops/cpu/few_rows/int8_rows.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/linear.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/ops/rows_alone.h"

namespace penstock::ops::cpu {
namespace {

/// Weights of a task, about.
constexpr std::int64_t kGrain = 16384;

/// Columns of y that a task computes: a part of one piece of w.
struct LinearTask {
  RowType type;
  bool int8;  // x is rounded
  const std::byte* w;
  std::int64_t first, count;
};

std::vector<LinearTask> tasks_of(const StoredMatrix& w) {
  const std::int64_t columns = (1 + kGrain / (kDotColumns * (w.depth + 1))) * kDotColumns;
  std::vector<LinearTask> out;
  std::int64_t first = 0;
  for (const StoredRows& piece : w.pieces) {
    const std::int64_t bytes = row_bytes(piece.type, w.depth);
    for (std::int64_t row = 0; row < piece.rows; row += columns)
      out.push_back({.type = piece.type,
                     .int8 = rounds_x(piece),
                     .w = piece.data + row * bytes,
                     .first = first + row,
                     .count = std::min(columns, piece.rows - row)});
    first += piece.rows;
  }
  return out;
}

/// x rounded to 8-bit integers; no rows where no task multiplies these.
Int8Rows rounded(const float* x, std::int64_t rows, std::int64_t depth,
                 const std::vector<LinearTask>& tasks) {
  if (std::ranges::none_of(tasks, &LinearTask::int8)) return {};
  Int8Rows out(rows, depth);
  for (std::int64_t r = 0; r < rows; ++r) out.set(r, x + r * depth);
  return out;
}

}  // namespace

at::Tensor few_rows_linear(const at::Tensor& x_in, const StoredMatrix& w, const at::Tensor& b_in) {
  const at::Tensor x = x_in.contiguous();
  const at::Tensor b = contiguous_if_defined(b_in);
  const std::int64_t rows = x.size(0), out = w.rows();
  at::Tensor y = at::empty({rows, out}, x.options());
  const float* bias = data_or_null(b);
  const std::vector<LinearTask> tasks = tasks_of(w);
  const Int8Rows x8 = rounded(x.data_ptr<float>(), rows, w.depth, tasks);
  const auto body = [&, from = x.data_ptr<float>(), to = y.data_ptr<float>()](std::int64_t i) {
    const LinearTask& task = tasks[static_cast<std::size_t>(i)];
    const std::int64_t stride = row_bytes(task.type, w.depth);
    if (task.int8)
      dot_int8_rows(task.type,
                    {.x = x8,
                     .first_row = 0,
                     .w = task.w,
                     .w_stride = stride,
                     .y = to + task.first,
                     .y_stride = out},
                    rows, task.count);
    else
      dot_rows(task.type,
               {.x = from,
                .x_stride = w.depth,
                .w = task.w,
                .w_stride = stride,
                .depth = w.depth,
                .y = to + task.first,
                .y_stride = out},
               rows, task.count);
    if (!bias) return;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = task.first; j < task.first + task.count; ++j)
        to[r * out + j] += bias[j];
  };
  parallel_neighbours(std::ssize(tasks), body);
  return y;
}

std::string declines_linear_rows(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  if (const std::string reason = declines({x, w, b}); !reason.empty()) return reason;
  if (x.size(0) == 0) return "no rows";
  return takes_few_rows(x.size(0)) ? "" : "more than 16 rows";
}

at::Tensor linear_rows(const at::Tensor& x, const at::Tensor& w_in, const at::Tensor& b) {
  const at::Tensor w = w_in.contiguous();
  const StoredRows rows{.rows = w.size(0),
                        .data = reinterpret_cast<const std::byte*>(w.data_ptr<float>())};
  return few_rows_linear(x, {.depth = w.size(1), .pieces = {rows}}, b);
}

}  // namespace penstock::ops::cpu
