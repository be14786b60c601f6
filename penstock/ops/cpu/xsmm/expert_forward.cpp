// The expert feed-forward on CPU in fp32. A task takes a few blocks of one expert's rows through
// all panels of f, so that inputs, activation and output stay in cache. It reads the weights in
// place. It writes the row of a token with one expert to the output. Other tokens sum their rows in
// expert order later.
#include <ATen/ATen.h>

#include "penstock/ops/cpu/dropout_tile.h"
#include "penstock/ops/cpu/expert_passes.h"
#include "penstock/ops/cpu/xsmm/expert_inputs.h"
#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::xsmm {
namespace {

struct Forward {
  const Operands& in;
  const ExpertProducts& products;
  Activation activation;
  cpu::TileDropout dropout;
  float* kept;    ///< of all blocks, or null
  float* output;  ///< [T, d]
  float* rows;    ///< [rows of the group, d], unweighted; unused for tokens with one expert
  std::int64_t first_row = 0;  ///< the group's first assignment

  /// x and y [chunk][d, kBlock], rows [kBlock, d], inputs [m, kPanel, kBlock], h [kPanel, kBlock].
  std::int64_t scratch_floats() const {
    return (2 * kForwardBlocks + 1) * in.width * kBlock + (in.inputs + 1) * kPanel * kBlock;
  }

  void run(const Task& task, float* scratch) const {
    const std::int64_t d = in.width;
    float* x = scratch;
    float* y = x + kForwardBlocks * d * kBlock;
    float* transposed = y + kForwardBlocks * d * kBlock;
    float* tile = transposed + d * kBlock;
    float* h = tile + in.inputs * kPanel * kBlock;
    const Block* blocks = in.blocks.data() + task.block_begin;
    const std::int64_t count = task.block_end - task.block_begin;
    for (std::int64_t b = 0; b < count; ++b)
      gather_transposed(in, blocks[b], in.hidden, transposed, x + b * d * kBlock);
    for (std::int64_t p = task.panel_begin; p < task.panel_end; ++p) {
      const std::int64_t columns = in.panel_width(p);
      for (std::int64_t b = 0; b < count; ++b) {
        const std::int64_t w = blocks[b].width();
        float* inputs = kept ? kept + kept_offset(in, blocks[b], p) : tile;
        panel_inputs(in, products, task.expert, p, w, x + b * d * kBlock, inputs);
        cpu::activation_forward(activation, {columns, w}, inputs, h);
        if (dropout.drops())
          dropout.apply({columns, w}, blocks[b].begin, blocks[b].rows, p * kPanel, w, h);
        (*products.at(columns, w).down[p > task.panel_begin])(in.out(task.expert) + p * kPanel, h,
                                                              y + b * d * kBlock);
      }
    }
    for (std::int64_t b = 0; b < count; ++b)
      finish(task.expert, blocks[b], y + b * d * kBlock, transposed);
  }

  void finish(std::int64_t expert, const Block& block, float* y, float* transposed) const {
    const std::int64_t d = in.width, w = block.width();
    if (const float* bias = in.bias_out(expert)) cpu::add_bias({d, w}, bias, y);
    cpu::transpose(d, w, y, w, transposed, d);  // [w, d]
    for (std::int64_t r = 0; r < block.rows; ++r)
      cpu::finish_row(*this, block.begin + r, transposed + r * d);
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

ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep) {
  const Operands in(problem);
  const ExpertProducts products(in, true, false);
  const auto options = problem.hidden.options().requires_grad(false);
  ExpertOutput result{at::empty({in.tokens, in.width}, options), at::Tensor()};
  if (keep) result.kept = at::empty({in.kept_floats}, options);
  Forward forward{.in = in,
                  .products = products,
                  .activation = problem.activation,
                  .dropout = {problem.drop()},
                  .kept = keep ? result.kept.data_ptr<float>() : nullptr,
                  .output = result.output.data_ptr<float>(),
                  .rows = nullptr};
  cpu::forward_groups(forward);
  return result;
}

}  // namespace penstock::ops::xsmm
