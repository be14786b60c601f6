// The expert feed-forward on CPU in fp32 for a few tokens without gradient, as in generation: two
// passes over the weights of the experts in use, the activations of all assignments between them.
// Threads divide columns of f, then columns of d; a column's assignments are summed in expert
// order.
#include <ATen/ATen.h>
#include <omp.h>

#include <algorithm>
#include <vector>

#include "penstock/ops/check.h"
#include "penstock/ops/cpu/dot_rows.h"
#include "penstock/ops/cpu/flush_denormals.h"
#include "penstock/ops/cpu/rows.h"
#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::cpu {
namespace {

constexpr std::int64_t kColumns = kLanes;  ///< of f or d that a unit of work takes
constexpr std::int64_t kGrain = 16384;     ///< weights that are worth a second thread
constexpr std::int64_t kStripe = 64;       ///< rows of an expert that a tile holds

/// An expert in use: assignments [begin, end).
struct Used {
  std::int64_t expert, begin, end;
};

struct ExpertRows {
  std::vector<Used> used;
  std::int64_t width, inner, inputs;  // d, f, m
  bool gated;
  const float *w_in, *w_out, *b_in, *b_out, *weight;
  const std::int64_t* token;
  const float* x;  // [A, d]
  float* h;        // [A, f]
  float* y;        // [T, d], zero
  std::int64_t panels() const { return (inner + kColumns - 1) / kColumns; }
};

/// Columns [first, first + count) of act(W_in · x + b_in) of an expert's assignments.
PENSTOCK_INLINE void inner_columns(const ExpertRows& p, const Used& u, std::int64_t first,
                                   std::int64_t count) {
  float in[2][kStripe * kColumns];
  for (std::int64_t a = u.begin; a < u.end; a += kStripe) {
    const std::int64_t rows = std::min(kStripe, u.end - a);
    for (std::int64_t i = 0; i < p.inputs; ++i) {
      const std::int64_t row = (u.expert * p.inputs + i) * p.inner + first;
      dot_rows({.x = p.x + a * p.width,
                .x_stride = p.width,
                .w = p.w_in + row * p.width,
                .w_stride = p.width,
                .depth = p.width,
                .y = in[i],
                .y_stride = kColumns},
               rows, count);
      if (p.b_in)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t j = 0; j < count; ++j) in[i][r * kColumns + j] += p.b_in[row + j];
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* first_in = in[0] + r * kColumns;
      const float* second_in = in[1] + r * kColumns;
      float* h = p.h + (a + r) * p.inner + first;
      for (std::int64_t j = 0; j < count; ++j)
        h[j] = p.gated ? first_in[j] * fast_sigmoid(first_in[j]) * second_in[j]
                       : std::max(first_in[j], 0.0f);
    }
  }
}

/// Panels [begin, end) of f, those of the used experts one after another.
PENSTOCK_PER_CPU void inner_panels(const ExpertRows& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t panels = p.panels();
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t first = unit % panels * kColumns;
    inner_columns(p, p.used[static_cast<std::size_t>(unit / panels)], first,
                  std::min(kColumns, p.inner - first));
  }
}

/// Columns [begin, end) of y.
PENSTOCK_PER_CPU void output_columns(const ExpertRows& p, std::int64_t begin, std::int64_t end) {
  float out[kStripe * kColumns];
  for (const Used& u : p.used)
    for (std::int64_t first = begin; first < end; first += kColumns)
      for (std::int64_t a = u.begin; a < u.end; a += kStripe) {
        const std::int64_t rows = std::min(kStripe, u.end - a),
                           count = std::min(kColumns, end - first);
        const std::int64_t row = u.expert * p.width + first;
        dot_rows({.x = p.h + a * p.inner,
                  .x_stride = p.inner,
                  .w = p.w_out + row * p.inner,
                  .w_stride = p.inner,
                  .depth = p.inner,
                  .y = out,
                  .y_stride = kColumns},
                 rows, count);
        for (std::int64_t r = 0; r < rows; ++r) {
          float* y = p.y + p.token[a + r] * p.width + first;
          const float weight = p.weight[a + r];
          for (std::int64_t j = 0; j < count; ++j)
            y[j] += weight * (out[r * kColumns + j] + (p.b_out ? p.b_out[row + j] : 0.0f));
        }
      }
}

void run(const ExpertRows& p) {
  const auto count = static_cast<std::int64_t>(p.used.size());
  const std::int64_t units = count * p.panels();
  const std::int64_t outputs = (p.width + kColumns - 1) / kColumns;
  const std::int64_t weights = count * (p.inputs + 1) * p.inner * p.width;
  const int threads = static_cast<int>(
      std::min<std::int64_t>(omp_get_max_threads(), std::max<std::int64_t>(1, weights / kGrain)));
  if (threads == 1) {
    const FlushDenormals flush;
    inner_panels(p, 0, units);
    output_columns(p, 0, p.width);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const FlushDenormals flush;
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t unit = 0; unit < units; ++unit) inner_panels(p, unit, unit + 1);
#pragma omp for schedule(dynamic, 1) nowait
    for (std::int64_t unit = 0; unit < outputs; ++unit)
      output_columns(p, unit * kColumns, std::min(p.width, (unit + 1) * kColumns));
  }
}

}  // namespace

std::string declines_expert_rows(const ExpertProblem& problem, bool keep) {
  if (const std::string reason = declines({problem.hidden}); !reason.empty()) return reason;
  if (keep || problem.gradient) return "a gradient is wanted";
  if (problem.dropout > 0) return "with dropout";
  if (problem.tokens() > kFewRows) return "more than 16 tokens";
  return problem.width() == 0 || problem.inner() == 0 ? "d or f is 0" : "";
}

ExpertOutput expert_rows(const ExpertProblem& problem, bool) {
  const at::Tensor hidden = problem.hidden.contiguous(), weight = problem.weight.contiguous(),
                   token = problem.token.contiguous(), w_in = problem.w_in.contiguous(),
                   w_out = problem.w_out.contiguous();
  const auto dense = [](const at::Tensor& b) { return b.defined() ? b.contiguous() : b; };
  const at::Tensor b_in = dense(problem.b_in), b_out = dense(problem.b_out);
  const auto data = [](const at::Tensor& b) { return b.defined() ? b.data_ptr<float>() : nullptr; };
  const auto options = hidden.options().requires_grad(false);
  const std::int64_t assignments = problem.assignments(), d = problem.width();
  ExpertOutput result{at::empty({problem.tokens(), d}, options), at::Tensor()};
  std::fill_n(result.output.data_ptr<float>(), result.output.numel(), 0.0f);
  const at::Tensor scratch = at::empty({assignments * (d + problem.inner())}, options);
  float* const x = scratch.data_ptr<float>();
  gather_rows(assignments, assignments, d, hidden.data_ptr<float>(), token.data_ptr<std::int64_t>(),
              x);
  ExpertRows rows{.used = {},
                  .width = d,
                  .inner = problem.inner(),
                  .inputs = problem.inputs(),
                  .gated = problem.activation == Activation::swiglu,
                  .w_in = w_in.data_ptr<float>(),
                  .w_out = w_out.data_ptr<float>(),
                  .b_in = data(b_in),
                  .b_out = data(b_out),
                  .weight = weight.data_ptr<float>(),
                  .token = token.data_ptr<std::int64_t>(),
                  .x = x,
                  .h = x + assignments * d,
                  .y = result.output.data_ptr<float>()};
  const auto* offsets = problem.offsets.data_ptr<std::int64_t>();
  for (std::int64_t e = 0; e < problem.experts(); ++e)
    if (offsets[e + 1] > offsets[e]) rows.used.push_back({e, offsets[e], offsets[e + 1]});
  run(rows);
  return result;
}

}  // namespace penstock::ops::cpu
