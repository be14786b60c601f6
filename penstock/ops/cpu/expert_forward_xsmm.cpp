// The expert feed-forward on CPU in fp32. A task takes some rows of one expert; for each panel of f
// it packs the panel's weights transposed (they stay in cache), and for each block of rows runs
// gate and up products, the gated unit, and the down product, so that only the rows' sums and the
// kept gate_up leave the cache. Tokens then sum their rows in expert order.
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

/// The products of one panel width, by rows.
struct PanelProducts {
  ProductTable up{kRows, 1}, down_first{kRows, 1}, down_next{kRows, 1};

  void prepare(std::int64_t rows, std::int64_t d, std::int64_t panel, std::int64_t gu_stride) {
    up.prepare(rows, [&](std::int64_t n) {
      return ProductShape{.rows = n,
                          .columns = panel,
                          .depth = d,
                          .a_stride = d,
                          .b_stride = panel,
                          .c_stride = gu_stride};
    });
    for (const bool next : {false, true})
      (next ? down_next : down_first).prepare(rows, [&](std::int64_t n) {
        return ProductShape{.rows = n,
                            .columns = d,
                            .depth = panel,
                            .a_stride = panel,
                            .b_stride = d,
                            .c_stride = d,
                            .accumulate = next};
      });
  }
};

struct Forward {
  const Operands& in;
  float* gate_up;  ///< [A, 2f] kept, or null
  float* rows;     ///< [A, d], each assignment's unweighted output
  PanelProducts full, last;
  std::int64_t longest = 0;  ///< rows of the largest task

  std::int64_t gu_stride() const { return gate_up ? 2 * in.inner : kPanel; }
  const PanelProducts& products(std::int64_t panel) const {
    return in.panel_width(panel) == kPanel ? full : last;
  }
  /// x [longest, d]; gate, up, down panels [d, panel]; g, u, h tiles.
  std::int64_t scratch_floats() const {
    return longest * in.width + 3 * in.width * kPanel + 3 * kRows * kPanel;
  }

  void prepare(const std::vector<Task>& tasks) {
    const std::int64_t tail = in.inner % kPanel;
    for (const Task& task : tasks) {
      const std::int64_t n = task.end - task.begin;
      longest = std::max(longest, n);
      for (const std::int64_t rows_now : {std::min(n, kRows), n % kRows}) {
        if (rows_now == 0) continue;
        if (in.inner >= kPanel) full.prepare(rows_now, in.width, kPanel, gu_stride());
        if (tail) last.prepare(rows_now, in.width, tail, gu_stride());
      }
    }
  }

  void run(const Task& task, float* scratch) const {
    const std::int64_t d = in.width, f = in.inner, n = task.end - task.begin;
    float* x = scratch;  // [n, d]
    float* w_gate = x + longest * d;
    float* w_up = w_gate + d * kPanel;
    float* w_down = w_up + d * kPanel;
    float* tile = w_down + d * kPanel;
    cpu::gather_rows(n, d, in.hidden, in.token + task.begin, x);
    for (std::int64_t p = task.panel_begin; p < task.panel_end; ++p) {
      const std::int64_t j = p * kPanel, width = in.panel_width(p);
      const PanelProducts& product = products(p);
      cpu::transpose(width, d, in.gate(task.expert) + j * d, d, w_gate);  // [d, width]
      cpu::transpose(width, d, in.up(task.expert) + j * d, d, w_up);      // [d, width]
      cpu::transpose(d, width, in.down(task.expert) + j, f, w_down);      // [width, d]
      for (std::int64_t r = 0; r < n; r += kRows) {
        const std::int64_t now = std::min(kRows, n - r);
        const std::int64_t row = task.begin + r;
        float* g = gate_up ? gate_up + row * 2 * f + j : tile;
        float* u = gate_up ? g + f : tile + kRows * kPanel;
        float* h = tile + 2 * kRows * kPanel;
        product.up[now](x + r * d, w_gate, g);
        product.up[now](x + r * d, w_up, u);
        cpu::gate_forward(now, width, g, u, gu_stride(), h, width);
        (p == task.panel_begin ? product.down_first : product.down_next)[now](h, w_down,
                                                                              rows + row * d);
      }
    }
  }
};

}  // namespace

std::string declines_expert_ffn(const ExpertProblem& problem, bool) {
  if (!problem.hidden.device().is_cpu()) return "not on the CPU";
  if (problem.hidden.scalar_type() != at::kFloat) return "not f32";
  if (!supported()) return "libxsmm compiles nothing for this processor";
  if (problem.width() == 0 || problem.inner() == 0) return "d or f is 0";
  return {};
}

ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep_gate_up) {
  const Operands in(problem);
  const auto options = problem.hidden.options().requires_grad(false);
  ExpertOutput result{at::empty({in.tokens, in.width}, options), at::Tensor()};
  if (keep_gate_up) result.gate_up = at::empty({in.assignments, 2 * in.inner}, options);
  const at::Tensor rows = at::empty({in.assignments, in.width}, options);
  float* sums = rows.data_ptr<float>();

  const int threads = omp_get_max_threads();
  const std::vector<Task> tasks = forward_tasks(in, threads);
  Forward forward{
      .in = in, .gate_up = keep_gate_up ? result.gate_up.data_ptr<float>() : nullptr, .rows = sums};
  forward.prepare(tasks);
  const at::Tensor scratch = at::empty({threads, forward.scratch_floats()}, options);
  float* scratch_data = scratch.data_ptr<float>();
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::size_t i = 0; i < tasks.size(); ++i)
    forward.run(tasks[i], scratch_data + omp_get_thread_num() * forward.scratch_floats());

  float* output = result.output.data_ptr<float>();
  cpu::parallel_ranges(in.tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* out = output + t * in.width;
      if (in.token_offsets[t] == in.token_offsets[t + 1]) std::fill_n(out, in.width, 0.0f);
      for (std::int64_t i = in.token_offsets[t]; i < in.token_offsets[t + 1]; ++i) {
        const std::int64_t a = in.by_token[i];
        cpu::scaled_row(in.width, in.weight[a], sums + a * in.width, i > in.token_offsets[t], out);
      }
    }
  });
  return result;
}

}  // namespace penstock::ops::xsmm

#endif
