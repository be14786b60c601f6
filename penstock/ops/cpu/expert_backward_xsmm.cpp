// The expert feed-forward's gradients on CPU in fp32. A task takes some panels of f of one expert
// and all its rows, chunk by chunk; so it alone writes those panels' weight gradients, and nothing
// of size [A, f] leaves the cache. Gradients of rows are partial sums over the task's panels;
// tokens then add them in expert and panel order.
#include "penstock/ops/expert_ffn.h"

#ifdef PENSTOCK_HAVE_XSMM

#include <ATen/ATen.h>
#include <omp.h>

#include <algorithm>

#include "penstock/ops/cpu/expert_plan.h"
#include "penstock/ops/cpu/gate_tile.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"

namespace penstock::ops::xsmm {
namespace {

/// A multiple of kDepthStep: products over a chunk's rows then come in few sizes.
std::int64_t padded(std::int64_t rows) { return (rows + kDepthStep - 1) / kDepthStep * kDepthStep; }

/// The products of one panel width, by rows of a block or by (padded) rows of a chunk.
struct PanelProducts {
  ProductTable p{kRows, 1}, dx_first{kRows, 1}, dx_next{kRows, 1};
  ProductTable dw_in_first{kChunk, kDepthStep}, dw_in_next{kChunk, kDepthStep};
  ProductTable dw_out_first{kChunk, kDepthStep}, dw_out_next{kChunk, kDepthStep};

  void prepare_rows(std::int64_t rows, std::int64_t d, std::int64_t panel) {
    p.prepare(rows, [&](std::int64_t n) {
      return ProductShape{.rows = n,
                          .columns = panel,
                          .depth = d,
                          .a_stride = d,
                          .b_stride = panel,
                          .c_stride = panel};
    });
    for (const bool next : {false, true})
      (next ? dx_next : dx_first).prepare(rows, [&](std::int64_t n) {
        return ProductShape{.rows = n,
                            .columns = d,
                            .depth = panel,
                            .a_stride = panel,
                            .b_stride = d,
                            .c_stride = d,
                            .accumulate = next};
      });
  }

  void prepare_depth(std::int64_t depth, std::int64_t d, std::int64_t f, std::int64_t panel) {
    for (const bool next : {false, true}) {
      (next ? dw_in_next : dw_in_first).prepare(depth, [&](std::int64_t n) {
        return ProductShape{.rows = panel,
                            .columns = d,
                            .depth = n,
                            .a_stride = panel,
                            .b_stride = d,
                            .c_stride = d,
                            .transpose_a = true,
                            .accumulate = next};
      });
      (next ? dw_out_next : dw_out_first).prepare(depth, [&](std::int64_t n) {
        return ProductShape{.rows = d,
                            .columns = panel,
                            .depth = n,
                            .a_stride = d,
                            .b_stride = panel,
                            .c_stride = f,
                            .transpose_a = true,
                            .accumulate = next};
      });
    }
  }
};

struct Backward {
  const Operands& in;
  const float *d_output, *gate_up;   ///< [T, d], [A, 2f]
  float *d_gate_up, *d_down;         ///< gradients of the weights
  float *row_gradients, *row_gates;  ///< partial [P, d] and [P]
  PanelProducts full, last;

  const PanelProducts& products(std::int64_t panel) const {
    return in.panel_width(panel) == kPanel ? full : last;
  }
  /// x and dy [chunk, d]; a down panel [d, panel]; p; d_g, d_u, h [chunk, panel].
  std::int64_t scratch_floats() const {
    return 2 * kChunk * in.width + in.width * kPanel + (kRows + 3 * kChunk) * kPanel;
  }

  void prepare(const std::vector<Task>& tasks) {
    const std::int64_t tail = in.inner % kPanel;
    const auto chunk = [&](std::int64_t rows) {
      if (rows == 0) return;
      const auto prepare_panel = [&](PanelProducts& panel, std::int64_t width) {
        for (const std::int64_t now : {std::min(rows, kRows), rows % kRows})
          if (now) panel.prepare_rows(now, in.width, width);
        panel.prepare_depth(padded(rows), in.width, in.inner, width);
      };
      if (in.inner >= kPanel) prepare_panel(full, kPanel);
      if (tail) prepare_panel(last, tail);
    };
    for (const Task& task : tasks) {
      const std::int64_t rows = task.end - task.begin;
      chunk(std::min(rows, kChunk));
      chunk(rows % kChunk);
    }
  }

  void run(const Task& task, float* scratch) const {
    if (task.begin == task.end) return clear(task);
    float* x = scratch;  // [chunk, d]
    float* dy = x + kChunk * in.width;
    for (std::int64_t row = task.begin; row < task.end; row += kChunk) {
      const std::int64_t n = std::min(kChunk, task.end - row), fill = padded(n) - n;
      cpu::gather_rows(n, in.width, in.hidden, in.token + row, x);
      cpu::gather_rows(n, in.width, d_output, in.token + row, dy);
      std::fill_n(x + n * in.width, fill * in.width, 0.0f);
      std::fill_n(dy + n * in.width, fill * in.width, 0.0f);
      std::fill_n(row_gates + task.partial + row - task.begin, n, 0.0f);
      for (std::int64_t p = task.panel_begin; p < task.panel_end; ++p)
        run_panel(task, row, n, p, x, dy, dy + kChunk * in.width);
    }
  }

  void run_panel(const Task& task, std::int64_t row, std::int64_t n, std::int64_t p, const float* x,
                 const float* dy, float* scratch) const {
    const std::int64_t d = in.width, f = in.inner, j = p * kPanel, width = in.panel_width(p);
    const PanelProducts& product = products(p);
    const float *w_gate = in.gate(task.expert) + j * d, *w_up = in.up(task.expert) + j * d;
    float* w_down = scratch;  // [d, width]
    float* p_tile = w_down + d * kPanel;
    float* d_g = p_tile + kRows * kPanel;  // [chunk, width]
    float* d_u = d_g + kChunk * kPanel;
    float* h = d_u + kChunk * kPanel;
    cpu::copy_block(d, width, in.down(task.expert) + j, f, w_down);
    for (std::int64_t r = 0; r < n; r += kRows) {
      const std::int64_t now = std::min(kRows, n - r), at = r * width;
      const std::int64_t partial = task.partial + row - task.begin + r;
      const float* g = gate_up + (row + r) * 2 * f + j;
      product.p[now](dy + r * d, w_down, p_tile);
      cpu::gate_backward(now, width, g, g + f, 2 * f, p_tile, in.weight + row + r, d_g + at,
                         d_u + at, h + at, row_gates + partial);
      float* dx = row_gradients + partial * d;
      (p == task.panel_begin ? product.dx_first : product.dx_next)[now](d_g + at, w_gate, dx);
      product.dx_next[now](d_u + at, w_up, dx);
    }
    const std::int64_t depth = padded(n);
    for (float* tile : {d_g, d_u, h}) std::fill_n(tile + n * width, (depth - n) * width, 0.0f);
    const bool first = row == task.begin;
    const Product& dw_in = (first ? product.dw_in_first : product.dw_in_next)[depth];
    const Product& dw_out = (first ? product.dw_out_first : product.dw_out_next)[depth];
    float* d_gate = d_gate_up + (task.expert * 2 * f + j) * d;
    dw_in(d_g, x, d_gate);                            // [width, d]
    dw_in(d_u, x, d_gate + f * d);                    // [width, d]
    dw_out(dy, h, d_down + task.expert * d * f + j);  // [d, width]
  }

  /// An expert without rows has gradients too: zero.
  void clear(const Task& task) const {
    const std::int64_t matrix = in.inner * in.width;
    std::fill_n(d_gate_up + task.expert * 2 * matrix, 2 * matrix, 0.0f);
    std::fill_n(d_down + task.expert * matrix, matrix, 0.0f);
  }
};

/// Where the partial rows of each expert lie.
struct Partials {
  std::vector<std::int64_t> first, parts;  ///< by expert
  std::vector<std::int32_t> expert;        ///< by assignment
  std::int64_t rows = 0;

  Partials(const std::vector<Task>& tasks, const Operands& in)
      : first(in.experts, -1), parts(in.experts, 0), expert(in.assignments) {
    for (const Task& task : tasks) {
      std::int64_t& start = first[task.expert];
      start = start < 0 ? task.partial : std::min(start, task.partial);
      ++parts[task.expert];
      rows += task.end - task.begin;
    }
    for (std::int64_t e = 0; e < in.experts; ++e)
      std::fill(expert.begin() + in.offsets[e], expert.begin() + in.offsets[e + 1],
                static_cast<std::int32_t>(e));
  }
  /// Calls body(partial row) for each partial of assignment a, in panel order.
  template <class Body>
  void for_each(const Operands& in, std::int64_t a, const Body& body) const {
    const std::int64_t e = expert[a], rows_of_expert = in.offsets[e + 1] - in.offsets[e];
    for (std::int64_t i = 0; i < parts[e]; ++i)
      body(first[e] + i * rows_of_expert + a - in.offsets[e]);
  }
};

}  // namespace

std::string declines_expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                         const at::Tensor& gate_up) {
  if (d_output.scalar_type() != at::kFloat || gate_up.scalar_type() != at::kFloat) return "not f32";
  return declines_expert_ffn(problem, true);
}

ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& gate_up) {
  const Operands in(problem);
  const at::Tensor dy = d_output.contiguous(), kept = gate_up.contiguous();
  const auto options = problem.hidden.options().requires_grad(false);
  const ExpertGradient result{
      at::empty({in.tokens, in.width}, options), at::empty({in.assignments}, options),
      at::empty(problem.w_gate_up.sizes(), options), at::empty(problem.w_down.sizes(), options)};
  const std::vector<Task> tasks = backward_tasks(in);
  const Partials partials(tasks, in);
  const at::Tensor rows = at::empty({partials.rows, in.width}, options);
  const at::Tensor gates = at::empty({partials.rows}, options);
  Backward backward{.in = in,
                    .d_output = dy.data_ptr<float>(),
                    .gate_up = kept.data_ptr<float>(),
                    .d_gate_up = result.w_gate_up.data_ptr<float>(),
                    .d_down = result.w_down.data_ptr<float>(),
                    .row_gradients = rows.data_ptr<float>(),
                    .row_gates = gates.data_ptr<float>()};
  backward.prepare(tasks);
  const int threads = omp_get_max_threads();
  const at::Tensor scratch = at::empty({threads, backward.scratch_floats()}, options);
  float* scratch_data = scratch.data_ptr<float>();
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::size_t i = 0; i < tasks.size(); ++i)
    backward.run(tasks[i], scratch_data + omp_get_thread_num() * backward.scratch_floats());

  float* d_hidden = result.hidden.data_ptr<float>();
  float* d_weight = result.weight.data_ptr<float>();
  cpu::parallel_ranges(in.tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* out = d_hidden + t * in.width;
      std::fill_n(out, in.width, 0.0f);
      for (std::int64_t i = in.token_offsets[t]; i < in.token_offsets[t + 1]; ++i) {
        const std::int64_t a = in.by_token[i];
        d_weight[a] = 0;
        partials.for_each(in, a, [&](std::int64_t row) {
          cpu::scaled_row(in.width, 1.0f, backward.row_gradients + row * in.width, true, out);
          d_weight[a] += backward.row_gates[row];
        });
      }
    }
  });
  return result;
}

}  // namespace penstock::ops::xsmm

#endif
