// How the expert feed-forward cuts its work: an expert's rows into blocks, f into panels, and those
// into tasks. No arithmetic on data here.
//
// Tiles lie transposed, [f or d, rows of a block]: then the weights are the products' left operand
// and are read where they lie, and only a block's rows are transposed on gathering.
//
// Every cut depends on the problem alone, and what a task writes no other task writes; so results
// do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "penstock/ops/cpu/expert_views.h"

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

/// A problem's views and the blocks of all its experts.
struct Operands : cpu::ExpertViews {
  explicit Operands(const ExpertProblem& problem);

  std::int64_t panels() const { return (inner + kPanel - 1) / kPanel; }
  /// Columns of a panel: kPanel, or what is left for the last.
  std::int64_t panel_width(std::int64_t panel) const {
    return std::min(kPanel, inner - panel * kPanel);
  }

  std::vector<Block> blocks;              ///< of all experts, in order
  std::vector<std::int64_t> first_block;  ///< [E+1]
  std::int64_t kept_floats = 0;           ///< of all blocks
};

/// Blocks [block_begin, block_end) of an expert and panels [panel_begin, panel_end) of f.
struct Task {
  std::int64_t expert, block_begin, block_end, panel_begin, panel_end;
  std::int64_t partial = 0;  ///< backward: where its partial rows begin
};

/// Chunks of each expert's blocks with all panels, longest first.
std::vector<Task> forward_tasks(const Operands& operands, const cpu::Group& group);
/// All blocks of each expert with some of its panels, longest first, experts without rows included.
/// An expert with many rows is cut into more tasks; each writes partial rows of its own.
std::vector<Task> backward_tasks(const Operands& operands, const cpu::Group& group);

}  // namespace penstock::ops::xsmm
