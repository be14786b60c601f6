// The expert feed-forward's gradients on CPU with products in bf16. A task takes some slices of f
// of one expert and all of the expert's rows, a chunk at a time. So it alone writes those slices'
// weight gradients, and nothing of size [A, f] leaves the cache. Gradients of rows are partial sums
// over the task's slices; tokens then add them in expert and slice order. Where the forward pass
// kept no inputs, each chunk computes them again.
#include <ATen/ATen.h>

#include <optional>

#include "penstock/ops/cpu/bf16/declines.h"
#include "penstock/ops/cpu/bf16/expert_inputs.h"
#include "penstock/ops/cpu/expert_gradients.h"
#include "penstock/ops/cpu/expert_passes.h"
#include "penstock/ops/cpu/stream.h"
#include "penstock/ops/expert_ffn.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock::ops::bf16 {
namespace {

constexpr std::int64_t kChunkPanel = kChunk / 2 * kPanel;  // pairs of a panel that is a chunk deep

/// Scratch of one thread.
struct Scratch {
  Pair *x, *dy;              ///< [kChunk][row] rows; x: used where inputs are computed again
  Pair *x_pairs, *dy_pairs;  ///< panels of d columns
  float *inputs, *p, *h;     ///< [kChunk][m, kInner] and [kChunk][kInner]
  float* d_in;               ///< [m][kChunk][kInner]
  Pair *d_rows, *d_pairs;    ///< of one input: [kChunk][kInner / 2], panels of kInner columns
  Pair* h_pairs;             ///< panels of kInner columns
  float* dx;                 ///< [kChunk][d]
};

struct Backward {
  const Operands& in;
  const PackedExperts& weights;
  const PackedExperts* transposed;  ///< used where inputs are computed again, else null
  Activation activation;
  Dropout dropout;
  const float* d_output;  ///< [T, d]
  PairRows dy;            ///< d_output in bf16
  const float* kept;
  cpu::WeightGradients d;
  float *row_gradients, *row_gates;  ///< partial [P, d] and [P] of the group

  std::int64_t panels_floats() const { return panel_pairs(in.width, kChunk / 2); }
  std::int64_t scratch_floats() const {
    return 2 * kChunk * in.x.row + 2 * panels_floats() + kChunk * kInner * (2 * in.inputs + 2) +
           3 * kChunk * kInner / 2 + kChunk * in.width;
  }
  Scratch divide(float* from) const {
    const auto floats = [&from](std::int64_t count) {
      float* part = from;
      from += count;
      return part;
    };
    const auto pairs = [&](std::int64_t count) { return reinterpret_cast<Pair*>(floats(count)); };
    const std::int64_t tile = kChunk * kInner;
    Scratch s;
    for (Pair** rows : {&s.x, &s.dy}) *rows = pairs(kChunk * in.x.row);
    for (Pair** panels : {&s.x_pairs, &s.dy_pairs}) *panels = pairs(panels_floats());
    for (float** part : {&s.p, &s.h}) *part = floats(tile);
    for (float** part : {&s.inputs, &s.d_in}) *part = floats(in.inputs * tile);
    for (Pair** part : {&s.d_rows, &s.d_pairs, &s.h_pairs}) *part = pairs(tile / 2);
    s.dx = floats(kChunk * in.width);
    return s;
  }

  void run(const BackwardTask& task, float* scratch) const {
    const std::int64_t begin = in.offsets[task.expert], end = in.offsets[task.expert + 1];
    if (begin == end) return d.clear(in, task.expert);
    const ProductBatch batch;
    const Scratch s = divide(scratch);
    d.clear_biases(in, task.expert, task.slice_begin * kInner,
                   std::min(task.slice_end * kInner, in.inner));
    for (std::int64_t a = begin; a < end; a += kChunk)
      run_chunk(task, a, std::min(a + kChunk, end), s);
  }

  void run_chunk(const BackwardTask& task, std::int64_t begin, std::int64_t end,
                 const Scratch& s) const {
    if (!kept) in.gather(begin, end, in.x, s.x);
    in.gather(begin, end, dy, s.dy);
    in.gather_pairs(begin, end, in.x, s.x_pairs);
    in.gather_pairs(begin, end, dy, s.dy_pairs);
    start_gates(task, begin, end);
    for (std::int64_t slice = task.slice_begin; slice < task.slice_end; ++slice)
      run_slice(task, slice, begin, end, s);
    // Another thread may read these rows, and may still have their memory in its cache.
    cpu::stream(s.dx, (end - begin) * in.width,
                row_gradients + partial_row(task, begin) * in.width);
  }

  std::int64_t partial_row(const BackwardTask& task, std::int64_t assignment) const {
    return task.partial + assignment - in.offsets[task.expert];
  }

  /// The first slice's task adds the output bias's share of the rows' gates, and computes the
  /// output bias's gradient.
  void start_gates(const BackwardTask& task, std::int64_t begin, std::int64_t end) const {
    float* gates = row_gates + partial_row(task, begin);
    if (task.slice_begin > 0)
      std::fill_n(gates, end - begin, 0.0f);
    else
      d.add_bias_out(in, task.expert, begin, end, d_output, gates);
  }

  void run_slice(const BackwardTask& task, std::int64_t slice, std::int64_t begin, std::int64_t end,
                 const Scratch& s) const {
    const std::int64_t n = end - begin, lanes = in.lanes(slice), row = partial_row(task, begin);
    const float* inputs = kept ? kept + in.kept_at(slice, begin) : s.inputs;
    if (!kept) slice_inputs(in, *transposed, task.expert, slice, n, s.x, s.inputs);
    multiply({.rows = n,
              .columns = lanes,
              .pairs = dy.row,
              .a_row = dy.row,
              .b_panel = weights.panel(in.inputs),
              .c_row = lanes},
             s.dy, weights.at(task.expert, in.inputs, slice), s.p);
    if (dropout.p > 0) cpu::drop_rows(dropout, {n, lanes}, begin, slice * kInner, s.p);
    cpu::activation_backward_rows(activation, {n, lanes}, inputs, s.p, in.weight + begin, s.d_in,
                                  s.h, row_gates + row);
    if (dropout.p > 0) cpu::drop_rows(dropout, {n, lanes}, begin, slice * kInner, s.h);
    for (std::int64_t i = 0; i < in.inputs; ++i) {
      input_gradient(task, slice, i, begin, end, s);
      multiply({.rows = n,
                .columns = in.width,
                .pairs = lanes / 2,
                .a_row = lanes / 2,
                .b_panel = weights.panel(i),
                .c_row = in.width,
                .accumulate = slice > task.slice_begin || i > 0},
               s.d_rows, weights.at(task.expert, i, slice), s.dx);
    }
    pack_rows(0, (n + 1) / 2, n, lanes, s.h, s.h_pairs, kChunkPanel);
    multiply({.rows = in.width,
              .columns = in.columns(slice),
              .pairs = (n + 1) / 2,
              .a_row = 0,
              .a_panel = kChunkPanel,
              .b_panel = kChunkPanel,
              .c_row = in.inner,
              .accumulate = begin > in.offsets[task.expert]},
             s.dy_pairs, s.h_pairs, d.w_out + task.expert * in.width * in.inner + slice * kInner);
  }

  /// Rounds an input's gradient, and adds to the gradients of the input's weights and bias.
  void input_gradient(const BackwardTask& task, std::int64_t slice, std::int64_t i,
                      std::int64_t begin, std::int64_t end, const Scratch& s) const {
    const std::int64_t n = end - begin, lanes = in.lanes(slice);
    const float* d_in = s.d_in + i * n * lanes;
    const std::int64_t neuron = (task.expert * in.inputs + i) * in.inner + slice * kInner;
    auto* halves = reinterpret_cast<std::uint16_t*>(s.d_rows);
    round_row(n * lanes, d_in, halves);
    const std::uint16_t* none = nullptr;
    for (std::int64_t r = 0; r < n; r += 2)
      pack_row_pair(lanes, halves + r * lanes, r + 1 < n ? halves + (r + 1) * lanes : none,
                    s.d_pairs + r / 2 * kPanel, kChunkPanel);
    multiply({.rows = in.columns(slice),
              .columns = in.width,
              .pairs = (n + 1) / 2,
              .a_row = 0,
              .a_panel = kChunkPanel,
              .b_panel = kChunkPanel,
              .c_row = in.width,
              .accumulate = begin > in.offsets[task.expert]},
             s.d_pairs, s.x_pairs, d.w_in + neuron * in.width);
    if (!d.b_in) return;
    for (std::int64_t r = 0; r < n; ++r)
      cpu::scaled_row(in.columns(slice), 1.0f, d_in + r * lanes, true, d.b_in + neuron);
  }
};

}  // namespace

std::string declines_expert_ffn_backward(const at::Tensor&, const ExpertProblem& problem,
                                         const at::Tensor& kept) {
  if (kept.defined() && kept.dim() != 1) return "the forward pass kept values in another order";
  return declines_expert_ffn(problem, true);
}

ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& kept) {
  const Operands in(problem);
  const PackedExperts weights(in, PackedExperts::Order::straight);
  std::optional<PackedExperts> transposed;
  if (!kept.defined())
    transposed.emplace(in, PackedExperts::Order::transposed, PackedExperts::Matrices::inputs);
  const at::Tensor dy = d_output.contiguous();
  const ExpertGradient result = cpu::empty_gradient(problem);
  Backward backward{.in = in,
                    .weights = weights,
                    .transposed = transposed ? &*transposed : nullptr,
                    .activation = problem.activation,
                    .dropout = problem.drop(),
                    .d_output = dy.data_ptr<float>(),
                    .dy = pair_rows(rounded(dy)),
                    .kept = data_or_null(kept),
                    .d = cpu::WeightGradients(result)};
  cpu::backward_groups(backward, result.hidden, result.weight);
  return result;
}

}  // namespace penstock::ops::bf16
