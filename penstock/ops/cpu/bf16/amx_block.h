// A block of c in AMX's registers, up to two tiles of 16 × 16 high and wide, and the block's
// operands as tiles.
#pragma once

#include <array>

#include "penstock/ops/cpu/bf16/tiles.h"

#if defined(__x86_64__)
#define PENSTOCK_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,prfchw")))
#endif

namespace penstock::ops::bf16 {

inline constexpr std::int64_t kTile = kTilePairs;  ///< rows, columns or pairs of a tile
inline constexpr std::int64_t kBlock = 2 * kTile;  ///< rows and columns of a block

/// Sixteen rows of a, as tiles along the depth.
struct LeftTiles {
  const Pair* at;
  std::int64_t row;   ///< from row to row, in pairs
  std::int64_t step;  ///< from tile to tile, in pairs
};

struct AmxBlock {
  std::int64_t rows, columns;  ///< of c, at most kBlock
  std::int64_t steps;          ///< tiles of depth
  std::array<LeftTiles, 2> left;
  const Pair* right;  ///< in a panel of b, `steps` tiles deep
  const Pair* last;   ///< the last tile of depth, with the row stride of a panel
  float* c;
  std::int64_t c_row;
  bool accumulate;
  const float* next;   ///< the next block's c
  std::int64_t ahead;  ///< rows of `next` that each step prefetches
};

/// c (+)= left · right.  REQUIRES: all eight tiles configured to 16 rows of 64 bytes.
void amx_block(const AmxBlock& block);

/// Writes sixteen columns of a panel, from `from` on, as tiles of sixteen rows of a, `pairs` pairs
/// deep. The last tile is padded with zeros.  to: holds whole tiles, each contiguous.
void transposed_left(const Pair* from, std::int64_t pairs, Pair* to);
/// Writes up to sixteen rows of a as such tiles. The other rows of the tiles are undefined.
void copied_left(const Pair* from, std::int64_t row, std::int64_t rows, std::int64_t pairs,
                 Pair* to);
/// Copies the last tile of depth of a block's columns, `pairs` pairs deep, to `to` with the row
/// stride of a panel. The pairs after these are zeros.
void padded_right(const Pair* from, std::int64_t columns, std::int64_t pairs, Pair* to);

}  // namespace penstock::ops::bf16
