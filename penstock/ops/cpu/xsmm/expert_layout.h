// Cuts the work of the expert feed-forward: an expert's rows into blocks, f into panels, and blocks
// and panels into tasks. It does no arithmetic on data.
//
// Tiles are transposed, [f or d, rows of a block]. So the weights are the products' left operand
// and are read in place. A gather transposes only a block's rows.
//
// Every cut depends on the problem alone, and no two tasks write the same memory. So results do not
// depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "penstock/ops/cpu/expert_views.h"

namespace penstock::ops::xsmm {

inline constexpr std::int64_t kPanel = 128;        ///< columns of f per panel
inline constexpr std::int64_t kBlock = 64;         ///< rows of a full block
inline constexpr std::int64_t kBlockStep = 16;     ///< a tile's rows are padded to this multiple
inline constexpr std::int64_t kForwardBlocks = 4;  ///< blocks that a task keeps in cache together
/// the same for a backward task, which needs more memory
inline constexpr std::int64_t kBackwardBlocks = 2;
inline constexpr std::int64_t kBackwardRows = kBackwardBlocks * kBlock;

/// Rows [begin, begin + rows) of the assignments, all of one expert.
struct Block {
  std::int64_t begin, rows;
  std::int64_t kept;  ///< the offset of the block's tiles in the kept values, in floats

  /// Columns of the block's tiles: `rows`, padded with zeros.
  std::int64_t width() const { return (rows + kBlockStep - 1) / kBlockStep * kBlockStep; }
};

/// A problem's views and the blocks of all its experts.
struct Operands : cpu::ExpertViews {
  explicit Operands(const ExpertProblem& problem);

  std::int64_t panels() const { return (inner + kPanel - 1) / kPanel; }
  /// Columns of a panel: kPanel, or the remaining columns for the last panel.
  std::int64_t panel_width(std::int64_t panel) const {
    return std::min(kPanel, inner - panel * kPanel);
  }

  std::vector<Block> blocks;              ///< of all experts, in order
  std::vector<std::int64_t> first_block;  ///< [E+1]: each expert's first block
  std::int64_t kept_floats = 0;           ///< the kept values of all blocks
};

/// Blocks [block_begin, block_end) of an expert and panels [panel_begin, panel_end) of f.
struct Task {
  std::int64_t expert, block_begin, block_end, panel_begin, panel_end;
  std::int64_t partial = 0;  ///< backward: the task's first partial row
};

/// A task has a few blocks of one expert and all panels. The longest tasks are first.
std::vector<Task> forward_tasks(const Operands& operands, const cpu::Group& group);
/// A task has all blocks of one expert and some panels. The longest tasks are first. Experts
/// without rows have a task too. An expert with many rows has more tasks; each writes its own
/// partial rows.
std::vector<Task> backward_tasks(const Operands& operands, const cpu::Group& group);

}  // namespace penstock::ops::xsmm
