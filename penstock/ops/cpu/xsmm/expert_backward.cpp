// The expert feed-forward's gradients on CPU in fp32. A task takes some panels of f of one expert
// and all of the expert's rows, a few blocks at a time. So it alone writes those panels' weight
// gradients, and nothing of size [A, f] leaves the cache. Gradients of rows are partial sums over
// the task's panels; tokens then add them in expert and panel order. Where the forward pass kept no
// inputs, each block computes them again.
#include <ATen/ATen.h>

#include "penstock/ops/cpu/dropout_tile.h"
#include "penstock/ops/cpu/expert_gradients.h"
#include "penstock/ops/cpu/expert_passes.h"
#include "penstock/ops/cpu/xsmm/expert_inputs.h"
#include "penstock/ops/expert_ffn.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock::ops::xsmm {
namespace {

/// Scratch of one thread.
struct Scratch {
  float *x, *dy;               ///< [chunk][kBlock, d] rows
  float *transposed_dy, *d_x;  ///< [chunk][d, kBlock]
  float* transposed_x;         ///< [chunk][d, kBlock], where inputs are computed again
  float *inputs, *p;           ///< tiles of a block
  float *d_in, *h;             ///< of a chunk: [m][kPanel, kBackwardRows], [kPanel, kBackwardRows]
  float* weight;               ///< [kBlock]: a block's weights, zero-filled
  float* d_out;                ///< [the task's panels of f, d]: w_out's gradient, transposed
};

struct Backward {
  const Operands& in;
  const ExpertProducts& products;
  Activation activation;
  cpu::TileDropout dropout;
  const float *d_output, *kept;  ///< [T, d]; null where inputs are computed again
  cpu::WeightGradients d;
  float *row_gradients, *row_gates;  ///< partial [P, d] and [P] of the group

  std::int64_t scratch_floats() const {
    return 5 * kBackwardRows * in.width + (in.inputs + 1) * kPanel * (kBlock + kBackwardRows) +
           kBlock + in.panels() * kPanel * in.width;
  }
  Scratch divide(float* from) const {
    const auto take = [&from](std::int64_t floats) {
      float* part = from;
      from += floats;
      return part;
    };
    const std::int64_t chunk = kBackwardRows * in.width;
    Scratch s;
    for (float** part : {&s.x, &s.dy, &s.transposed_dy, &s.d_x, &s.transposed_x})
      *part = take(chunk);
    s.inputs = take(in.inputs * kPanel * kBlock);
    s.p = take(kPanel * kBlock);
    s.d_in = take(in.inputs * kPanel * kBackwardRows);
    s.h = take(kPanel * kBackwardRows);
    s.weight = take(kBlock);
    s.d_out = from;
    return s;
  }

  void run(const Task& task, float* scratch) const {
    if (task.block_begin == task.block_end) return d.clear(in, task.expert);
    const Scratch s = divide(scratch);
    const std::int64_t first = task.panel_begin * kPanel,
                       last = std::min(task.panel_end * kPanel, in.inner);
    d.clear_biases(in, task.expert, first, last);
    for (std::int64_t b = task.block_begin; b < task.block_end; b += kBackwardBlocks)
      run_chunk(task, b, std::min(b + kBackwardBlocks, task.block_end), s);
    cpu::transpose(last - first, in.width, s.d_out, in.width,
                   d.w_out + task.expert * in.width * in.inner + first, in.inner);
  }

  void run_chunk(const Task& task, std::int64_t begin, std::int64_t end, const Scratch& s) const {
    const std::int64_t width = in.width, step = kBlock * width;
    const Block* blocks = in.blocks.data();
    for (std::int64_t b = begin; b < end; ++b) {
      const Block& block = blocks[b];
      const std::int64_t w = block.width(), at = (b - begin) * step;
      cpu::gather_rows(block.rows, w, width, in.hidden, in.token + block.begin, s.x + at);
      cpu::gather_rows(block.rows, w, width, d_output, in.token + block.begin, s.dy + at);
      cpu::transpose(w, width, s.dy + at, width, s.transposed_dy + at, w);
      if (!kept) cpu::transpose(w, width, s.x + at, width, s.transposed_x + at, w);
      start_gates(task, block);
    }
    const std::int64_t rows = (end - 1 - begin) * kBlock + blocks[end - 1].width();
    for (std::int64_t p = task.panel_begin; p < task.panel_end; ++p) {
      for (std::int64_t b = begin; b < end; ++b)
        run_panel(task, p, blocks[b], (b - begin) * kBlock, s);
      add_weights(task, p, begin > task.block_begin, rows, s);
    }
    for (std::int64_t b = begin; b < end; ++b) {
      const Block& block = blocks[b];
      const std::int64_t w = block.width(), at = (b - begin) * step;
      cpu::transpose(width, block.rows, s.d_x + at, w,
                     row_gradients + partial_row(task, block) * width, width);
    }
  }

  std::int64_t partial_row(const Task& task, const Block& block) const {
    return task.partial + block.begin - in.offsets[task.expert];
  }

  /// The first panel's task adds the output bias's share of the rows' gates, and computes the
  /// output bias's gradient.
  void start_gates(const Task& task, const Block& block) const {
    float* gates = row_gates + partial_row(task, block);
    if (task.panel_begin > 0)
      std::fill_n(gates, block.rows, 0.0f);
    else
      d.add_bias_out(in, task.expert, block.begin, block.begin + block.rows, d_output, gates);
  }

  /// Computes a block's gradients of rows, and its columns [at, at + w) of the chunk's tiles.
  void run_panel(const Task& task, std::int64_t panel, const Block& block, std::int64_t at,
                 const Scratch& s) const {
    const std::int64_t width = in.width, w = block.width(), columns = in.panel_width(panel);
    const std::int64_t j = panel * kPanel;
    const TileProducts& product = products.at(columns, w);
    const float* inputs = kept ? kept + kept_offset(in, block, panel) : s.inputs;
    if (!kept)
      panel_inputs(in, products, task.expert, panel, w, s.transposed_x + at * width, s.inputs);
    (*product.back)(in.out(task.expert) + j, s.transposed_dy + at * width, s.p);
    float gates[kBlock] = {};
    std::copy_n(in.weight + block.begin, block.rows, s.weight);
    std::fill_n(s.weight + block.rows, w - block.rows, 0.0f);
    if (dropout.drops()) dropout.apply({columns, w}, block.begin, block.rows, j, w, s.p);
    cpu::activation_backward(activation, {columns, w}, inputs, s.p, s.weight, kBackwardRows,
                             s.d_in + at, s.h + at, gates);
    if (dropout.drops())
      dropout.apply({columns, w}, block.begin, block.rows, j, kBackwardRows, s.h + at);
    float* row_gate = row_gates + partial_row(task, block);
    for (std::int64_t r = 0; r < block.rows; ++r) row_gate[r] += gates[r];
    for (std::int64_t i = 0; i < in.inputs; ++i) {
      const float* d_in = s.d_in + i * columns * kBackwardRows + at;
      (*product.dx[panel > task.panel_begin || i > 0])(in.in(task.expert, i) + j * width, d_in,
                                                       s.d_x + at * width);
      if (d.b_in)
        cpu::add_row_sums({columns, w}, d_in, kBackwardRows,
                          d.b_in + (task.expert * in.inputs + i) * in.inner + j);
    }
  }

  /// Computes the weights' gradients over the chunk's rows; with `add`, adds them to those of
  /// earlier chunks. The last rows may be zeros, as padding.
  void add_weights(const Task& task, std::int64_t panel, bool add, std::int64_t rows,
                   const Scratch& s) const {
    const std::int64_t width = in.width, columns = in.panel_width(panel), j = panel * kPanel;
    const Product& product = products.weights(columns, rows, add);
    for (std::int64_t i = 0; i < in.inputs; ++i)
      product(s.d_in + i * columns * kBackwardRows, s.x,
              d.w_in + ((task.expert * in.inputs + i) * in.inner + j) * width);
    product(s.h, s.dy, s.d_out + (j - task.panel_begin * kPanel) * width);
  }
};

}  // namespace

std::string declines_expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                         const at::Tensor& kept) {
  if (d_output.scalar_type() != at::kFloat) return "not f32";
  if (kept.defined() && kept.dim() != 1) return "the forward pass kept values in another order";
  return declines_expert_ffn(problem, true);
}

ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& kept) {
  const Operands in(problem);
  const ExpertProducts products(in, !kept.defined(), true);
  const at::Tensor dy = d_output.contiguous();
  const ExpertGradient result = cpu::empty_gradient(problem);
  Backward backward{.in = in,
                    .products = products,
                    .activation = problem.activation,
                    .dropout = {problem.drop()},
                    .d_output = dy.data_ptr<float>(),
                    .kept = data_or_null(kept),
                    .d = cpu::WeightGradients(result)};
  cpu::backward_groups(backward, result.hidden, result.weight);
  return result;
}

}  // namespace penstock::ops::xsmm
