// Visits the blocks of a quantised tensor, for the readers of block formats.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "penstock/base/error.h"

namespace penstock {

/// Calls `read(block, part)` for each block, where `part` is the block's `numbers` numbers of
/// `out`. REQUIRES: `blocks` are whole blocks and `out` has the size of their numbers (asserted).
/// Blocks need not be aligned.
template <class Block, std::size_t numbers, class Read>
void each_block(std::span<const std::byte> blocks, std::span<float> out, const Read& read) {
  static_assert(std::is_trivially_copyable_v<Block>);
  PENSTOCK_ASSERT(out.size() % numbers == 0 &&
                  blocks.size() == out.size() / numbers * sizeof(Block));
  for (; !out.empty(); out = out.subspan(numbers), blocks = blocks.subspan(sizeof(Block))) {
    Block block;
    std::memcpy(&block, blocks.data(), sizeof block);
    read(block, out.first(numbers));
  }
}

}  // namespace penstock
