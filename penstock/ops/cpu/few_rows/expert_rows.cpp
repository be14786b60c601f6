// The expert feed-forward on CPU in fp32 for a few tokens without gradient, as in generation. The
// weights may have any type. The first pass reads the input matrices of the experts in use, and
// writes the activations of all assignments. The second pass reads the output matrices. Threads
// divide columns of f, then columns of d. A column's assignments are summed in expert order.
#include "penstock/ops/cpu/few_rows/expert_rows.h"

#include <ATen/ATen.h>
#include <omp.h>

#include <algorithm>
#include <vector>

#include "penstock/ops/check.h"
#include "penstock/ops/cpu/few_rows/dot_rows.h"
#include "penstock/ops/cpu/few_rows/int8_rows.h"
#include "penstock/ops/cpu/flush_denormals.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"
#include "penstock/ops/cpu/work_shares.h"
#include "penstock/ops/expert_ffn.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/ops/rows_alone.h"

namespace penstock::ops::cpu {
namespace {

constexpr std::int64_t kColumns = kLanes;  ///< columns of f or d of a unit of work
constexpr std::int64_t kGrain = 16384;     ///< weights that are worth a second thread
constexpr std::int64_t kStripe = 64;       ///< rows of an expert that a tile holds

/// The activations that matrices multiply. `rounded` holds them as 8-bit integers where a matrix
/// multiplies these.
struct Activated {
  float* numbers;  // [A, depth]
  std::int64_t depth;
  Int8Rows rounded;
  void round(std::int64_t row) {
    if (rounded.rows() > 0) rounded.set(row, numbers + row * depth);
  }
};

/// Rows of a matrix of one expert, and its bias or null.
struct Rows {
  RowType type;
  bool int8;  // x is rounded
  const std::byte* data;
  std::int64_t stride;  // bytes
  const float* bias;
  /// y [rows, kColumns] = x · wᵀ + bias for rows of x from `row` on and columns [first, first +
  /// count).
  void multiply(const Activated& x, std::int64_t row, std::int64_t rows, std::int64_t first,
                std::int64_t count, float* y) const {
    const std::byte* const w = data + first * stride;
    if (int8)
      dot_int8_rows(type,
                    {.x = x.rounded,
                     .first_row = row,
                     .w = w,
                     .w_stride = stride,
                     .y = y,
                     .y_stride = kColumns},
                    rows, count);
    else
      dot_rows(type,
               {.x = x.numbers + row * x.depth,
                .x_stride = x.depth,
                .w = w,
                .w_stride = stride,
                .depth = x.depth,
                .y = y,
                .y_stride = kColumns},
               rows, count);
    if (!bias) return;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < count; ++j) y[r * kColumns + j] += bias[first + j];
  }
};

/// An expert in use: assignments [begin, end).
struct Used {
  std::int64_t begin, end;
  Rows in[2], out;
};

struct ExpertRows {
  std::vector<Used> used;
  std::int64_t width, inner, inputs;  // d, f, m
  bool gated;
  const float* weight;
  const std::int64_t* token;
  Activated x, h;  // [A, d], [A, f]
  float* y;        // [T, d], zero
  std::int64_t panels() const { return (inner + kColumns - 1) / kColumns; }
};

/// Computes columns [first, first + count) of act(W_in · x + b_in) of an expert's assignments.
PENSTOCK_INLINE void inner_columns(const ExpertRows& p, const Used& u, std::int64_t first,
                                   std::int64_t count) {
  float in[2][kStripe * kColumns];
  for (std::int64_t a = u.begin; a < u.end; a += kStripe) {
    const std::int64_t rows = std::min(kStripe, u.end - a);
    for (std::int64_t i = 0; i < p.inputs; ++i) u.in[i].multiply(p.x, a, rows, first, count, in[i]);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* first_in = in[0] + r * kColumns;
      const float* second_in = in[1] + r * kColumns;
      float* h = p.h.numbers + (a + r) * p.inner + first;
      for (std::int64_t j = 0; j < count; ++j)
        h[j] = p.gated ? first_in[j] * fast_sigmoid(first_in[j]) * second_in[j]
                       : std::max(first_in[j], 0.0f);
    }
  }
}

/// Computes a panel of f. The panels of the used experts follow one another.
PENSTOCK_PER_CPU void inner_panel(const ExpertRows& p, std::int64_t panel) {
  const std::int64_t first = panel % p.panels() * kColumns;
  inner_columns(p, p.used[static_cast<std::size_t>(panel / p.panels())], first,
                std::min(kColumns, p.inner - first));
}

/// Computes a panel of y.
PENSTOCK_PER_CPU void output_panel(const ExpertRows& p, std::int64_t panel) {
  const std::int64_t first = panel * kColumns, count = std::min(kColumns, p.width - first);
  float out[kStripe * kColumns];
  for (const Used& u : p.used)
    for (std::int64_t a = u.begin; a < u.end; a += kStripe) {
      const std::int64_t rows = std::min(kStripe, u.end - a);
      u.out.multiply(p.h, a, rows, first, count, out);
      for (std::int64_t r = 0; r < rows; ++r) {
        float* y = p.y + p.token[a + r] * p.width + first;
        const float weight = p.weight[a + r];
        for (std::int64_t j = 0; j < count; ++j) y[j] += weight * out[r * kColumns + j];
      }
    }
}

void run(ExpertRows& p) {
  const auto count = static_cast<std::int64_t>(p.used.size());
  const std::int64_t weights = count * (p.inputs + 1) * p.inner * p.width;
  const int threads = static_cast<int>(
      std::min<std::int64_t>(omp_get_max_threads(), std::max<std::int64_t>(1, weights / kGrain)));
  WorkShares inner(count * p.panels(), threads);
  WorkShares outer((p.width + kColumns - 1) / kColumns, threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    const FlushDenormals flush;
    const int thread = omp_get_thread_num();
    while (const auto panel = inner.next(thread)) inner_panel(p, *panel);
#pragma omp barrier
    if (p.h.rounded.rows() > 0) {
#pragma omp for
      for (std::int64_t a = 0; a < p.h.rounded.rows(); ++a) p.h.round(a);
    }
    while (const auto panel = outer.next(thread)) output_panel(p, *panel);
  }
}

/// Rounds x, and allocates the rounded h, where an expert in use multiplies 8-bit integers.
void round_where_wanted(ExpertRows& p, std::int64_t assignments) {
  bool in = false, out = false;
  for (const Used& u : p.used) {
    for (std::int64_t i = 0; i < p.inputs; ++i) in = in || u.in[i].int8;
    out = out || u.out.int8;
  }
  if (in) p.x.rounded = Int8Rows(assignments, p.width);
  for (std::int64_t a = 0; in && a < assignments; ++a) p.x.round(a);
  if (out) p.h.rounded = Int8Rows(assignments, p.inner);
}

}  // namespace

std::string declines_expert_rows(const ExpertProblem& problem, bool keep) {
  if (const std::string reason = declines({problem.hidden}); !reason.empty()) return reason;
  if (keep || problem.gradient) return "a gradient is wanted";
  if (problem.dropout > 0) return "with dropout";
  if (!takes_few_rows(problem.tokens())) return "more than 16 tokens";
  return problem.width() == 0 || problem.inner() == 0 ? "d or f is 0" : "";
}

at::Tensor few_rows_experts(const ExpertRowsProblem& problem,
                            const std::function<ExpertMatrices(std::int64_t)>& matrices) {
  const at::Tensor hidden = problem.hidden.contiguous(), weight = problem.weight.contiguous(),
                   token = problem.token.contiguous();
  const auto options = hidden.options().requires_grad(false);
  const std::int64_t assignments = token.size(0), d = hidden.size(1), f = problem.inner;
  at::Tensor y = at::empty({hidden.size(0), d}, options);
  std::fill_n(y.data_ptr<float>(), y.numel(), 0.0f);
  const at::Tensor scratch = at::empty({assignments * (d + f)}, options);
  float* const x = scratch.data_ptr<float>();
  gather_rows(assignments, assignments, d, hidden.data_ptr<float>(), token.data_ptr<std::int64_t>(),
              x);
  ExpertRows rows{.used = {},
                  .width = d,
                  .inner = f,
                  .inputs = problem.activation == Activation::swiglu ? 2 : 1,
                  .gated = problem.activation == Activation::swiglu,
                  .weight = weight.data_ptr<float>(),
                  .token = token.data_ptr<std::int64_t>(),
                  .x = {.numbers = x, .depth = d, .rounded = {}},
                  .h = {.numbers = x + assignments * d, .depth = f, .rounded = {}},
                  .y = y.data_ptr<float>()};
  const auto view = [](const ExpertMatrix& m, std::int64_t depth) {
    return Rows{m.rows.type, rounds_x(m.rows), m.rows.data, row_bytes(m.rows.type, depth), m.bias};
  };
  const auto* offsets = problem.offsets.data_ptr<std::int64_t>();
  for (std::int64_t e = 0; e + 1 < problem.offsets.size(0); ++e) {
    if (offsets[e + 1] == offsets[e]) continue;
    const ExpertMatrices own = matrices(e);
    rows.used.push_back({.begin = offsets[e],
                         .end = offsets[e + 1],
                         .in = {view(own.in[0], d), view(own.in[1], d)},
                         .out = view(own.out, f)});
  }
  round_where_wanted(rows, assignments);
  run(rows);
  return y;
}

ExpertOutput expert_rows(const ExpertProblem& problem, bool) {
  const at::Tensor w_in = problem.w_in.contiguous(), w_out = problem.w_out.contiguous();
  const at::Tensor b_in = contiguous_if_defined(problem.b_in),
                   b_out = contiguous_if_defined(problem.b_out);
  const std::int64_t d = problem.width(), f = problem.inner(), inputs = problem.inputs();
  // Rows [first, first + count) of a matrix [.., depth], and their bias.
  const auto rows = [](const at::Tensor& w, const at::Tensor& b, std::int64_t first,
                       std::int64_t count, std::int64_t depth) {
    return ExpertMatrix{
        {.rows = count,
         .data = reinterpret_cast<const std::byte*>(w.data_ptr<float>() + first * depth)},
        b.defined() ? b.data_ptr<float>() + first : nullptr};
  };
  const auto of_expert = [&](std::int64_t e) {
    ExpertMatrices out{.in = {}, .out = rows(w_out, b_out, e * d, d, f)};
    for (std::int64_t i = 0; i < inputs; ++i)
      out.in[i] = rows(w_in, b_in, (e * inputs + i) * f, f, d);
    return out;
  };
  return {few_rows_experts({.hidden = problem.hidden,
                            .weight = problem.weight,
                            .token = problem.token,
                            .offsets = problem.offsets,
                            .inner = f,
                            .activation = problem.activation},
                           of_expert),
          at::Tensor()};
}

}  // namespace penstock::ops::cpu
