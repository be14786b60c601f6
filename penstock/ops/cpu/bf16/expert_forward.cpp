// The expert feed-forward on CPU with products in bf16. A task takes some rows of one expert
// through all slices of f. Values between its two products are f32 and stay in cache. It writes the
// row of a token with one expert to the output. Other tokens sum their rows in expert order later.
#include <ATen/ATen.h>

#include "penstock/ops/cpu/bf16/declines.h"
#include "penstock/ops/cpu/bf16/expert_inputs.h"
#include "penstock/ops/cpu/expert_passes.h"
#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::bf16 {
namespace {

struct Forward {
  const Operands& in;
  const PackedExperts& weights;
  Activation activation;
  Dropout dropout;
  float* kept;    ///< of all assignments, or null
  float* output;  ///< [T, d]
  float* rows;    ///< [rows of the group, d], unweighted; unused for tokens with one expert
  std::int64_t first_row = 0;  ///< the group's first assignment

  std::int64_t scratch_floats() const {
    return kForwardRows * (in.x.row + (in.inputs + 1) * kInner + kInner / 2 + in.width);
  }

  void run(const ForwardTask& task, float* scratch) const {
    const ProductBatch batch;
    const std::int64_t n = task.end - task.begin;
    auto* x = reinterpret_cast<Pair*>(scratch);
    float* tile = scratch + kForwardRows * in.x.row;
    float* h = tile + kForwardRows * in.inputs * kInner;
    float* rounded_h = h + kForwardRows * kInner;
    float* y = rounded_h + kForwardRows * kInner / 2;
    in.gather(task.begin, task.end, in.x, x);
    for (std::int64_t slice = 0; slice < in.slices(); ++slice) {
      const std::int64_t lanes = in.lanes(slice);
      float* inputs = kept ? kept + in.kept_at(slice, task.begin) : tile;
      slice_inputs(in, weights, task.expert, slice, n, x, inputs);
      cpu::activation_forward_rows(activation, {n, lanes}, inputs, h);
      if (dropout.p > 0) cpu::drop_rows(dropout, {n, lanes}, task.begin, slice * kInner, h);
      round_row(n * lanes, h, reinterpret_cast<std::uint16_t*>(rounded_h));
      multiply({.rows = n,
                .columns = in.width,
                .pairs = lanes / 2,
                .a_row = lanes / 2,
                .b_panel = weights.panel(in.inputs),
                .c_row = in.width,
                .accumulate = slice > 0},
               reinterpret_cast<const Pair*>(rounded_h), weights.at(task.expert, in.inputs, slice),
               y);
    }
    finish(task, y);
  }

  void finish(const ForwardTask& task, float* y) const {
    const std::int64_t d = in.width;
    const float* bias = in.bias_out(task.expert);
    for (std::int64_t a = task.begin; a < task.end; ++a, y += d) {
      if (bias) cpu::scaled_row(d, 1.0f, bias, true, y);
      cpu::finish_row(*this, a, y);
    }
  }
};

}  // namespace

std::string declines_expert_ffn(const ExpertProblem& problem, bool) {
  if (std::string reason = declines(problem.hidden, problem.w_in); !reason.empty()) return reason;
  return problem.width() == 0 || problem.inner() == 0 ? "d or f is 0" : "";
}

ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep) {
  const Operands in(problem);
  const PackedExperts weights(in, PackedExperts::Order::transposed);
  const auto options = problem.w_in.options().requires_grad(false);
  ExpertOutput result{at::empty({in.tokens, in.width}, options), at::Tensor()};
  if (keep) result.kept = at::empty({in.kept_floats()}, options);
  Forward forward{.in = in,
                  .weights = weights,
                  .activation = problem.activation,
                  .dropout = problem.drop(),
                  .kept = keep ? result.kept.data_ptr<float>() : nullptr,
                  .output = result.output.data_ptr<float>(),
                  .rows = nullptr};
  cpu::forward_groups(forward);
  return result;
}

}  // namespace penstock::ops::bf16
