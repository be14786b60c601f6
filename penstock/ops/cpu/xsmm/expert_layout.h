// How the expert feed-forward cuts its work: experts into groups, an expert's rows into blocks, f
// into panels, and those into tasks. No arithmetic on data here.
//
// Tiles lie transposed, [f or d, rows of a block]: then the weights are the products' left operand
// and are read where they lie, and only a block's rows are turned on gathering.
//
// Every cut depends on the problem alone, and what a task writes no other task writes; so results
// do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::xsmm {

inline constexpr std::int64_t kPanel = 128;         ///< columns of f per panel
inline constexpr std::int64_t kBlock = 64;          ///< rows of a full block
inline constexpr std::int64_t kBlockStep = 16;      ///< a last block's tile is filled up to this
inline constexpr std::int64_t kForwardBlocks = 4;   ///< blocks that a task keeps in cache together
inline constexpr std::int64_t kBackwardBlocks = 2;  ///< the same in backward, which keeps more
inline constexpr std::int64_t kBackwardRows = kBackwardBlocks * kBlock;

/// Rows [begin, begin + rows) of the assignments, all of one expert.
struct Block {
  std::int64_t begin, rows;
  std::int64_t kept;  ///< where its tiles begin among the group's kept values, in floats

  /// Columns of its tiles: rows, filled up with zeros.
  std::int64_t width() const { return (rows + kBlockStep - 1) / kBlockStep * kBlockStep; }
};

/// Contiguous f32 views of a problem's tensors, kept alive, and the blocks of all experts.
struct Operands {
  explicit Operands(const ExpertProblem& problem);

  std::int64_t tokens, width, assignments, experts, inner, inputs;  ///< T, d, A, E, f, m
  std::int64_t panels() const { return (inner + kPanel - 1) / kPanel; }
  /// Columns of a panel: kPanel, or what is left for the last.
  std::int64_t panel_width(std::int64_t panel) const {
    return std::min(kPanel, inner - panel * kPanel);
  }
  /// Expert e's [f, d] input matrix i, and its output matrix [d, f].
  const float* in(std::int64_t e, std::int64_t i) const {
    return w_in + (e * inputs + i) * inner * width;
  }
  const float* out(std::int64_t e) const { return w_out + e * width * inner; }
  const float* bias_in(std::int64_t e, std::int64_t i) const {
    return b_in ? b_in + (e * inputs + i) * inner : nullptr;
  }
  const float* bias_out(std::int64_t e) const { return b_out ? b_out + e * width : nullptr; }

  const float *hidden, *weight, *w_in, *w_out, *b_in, *b_out;
  const std::int64_t *token, *offsets, *by_token, *token_offsets;
  std::vector<Block> blocks;              ///< of all experts, in order
  std::vector<std::int64_t> first_block;  ///< [E+1]
  std::int64_t kept_floats = 0;           ///< of all blocks

 private:
  std::vector<at::Tensor> held_;
};

/// Experts that are worked through together, so that rows and recomputed values of one group at a
/// time exist: at most max(2T, 8192) assignments, or one expert.
struct Group {
  std::int64_t first, last;  ///< experts [first, last)
};
std::vector<Group> groups(const Operands& operands);

/// Blocks [block_begin, block_end) of an expert and panels [panel_begin, panel_end) of f.
struct Task {
  std::int64_t expert, block_begin, block_end, panel_begin, panel_end;
  std::int64_t partial = 0;  ///< backward: where its partial rows begin
};

/// Chunks of each expert's blocks with all panels, longest first.
std::vector<Task> forward_tasks(const Operands& operands, const Group& group);
/// All blocks of each expert with some of its panels, longest first, experts without rows included.
/// An expert with many rows is cut into more tasks; each writes partial rows of its own.
std::vector<Task> backward_tasks(const Operands& operands, const Group& group);

}  // namespace penstock::ops::xsmm
