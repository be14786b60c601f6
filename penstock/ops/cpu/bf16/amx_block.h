// AMX's registers: a block of c, up to two tiles of 16 × 16 high and wide, and its operands as
// tiles.
#pragma once

#include <array>

#include "penstock/ops/cpu/bf16/tiles.h"

#if defined(__x86_64__)
#define PENSTOCK_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,prfchw")))
#endif

namespace penstock::ops::bf16 {

inline constexpr std::int64_t kTile = kTilePairs;  ///< rows, columns or pairs of a tile
inline constexpr std::int64_t kBlock = 2 * kTile;  ///< rows and columns of a block

/// Sixteen rows of a, tile after tile of depth.
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
  const Pair* last;   ///< the last tile of depth, of rows as a panel's
  float* c;
  std::int64_t c_row;
  bool accumulate;
  const float* next;  ///< the next block's c, of which so many rows are asked for in each step
  std::int64_t ahead;
};

/// c (+)= left · right.  REQUIRES: all eight tiles configured to 16 rows of 64 bytes.
void amx_block(const AmxBlock& block);

/// The tiles of a panel's sixteen columns from `from` on, which are rows of a, so many pairs deep;
/// the last tile filled up with zeros.  `to` has room for whole tiles, each in one piece.
void transposed_left(const Pair* from, std::int64_t pairs, Pair* to);
/// The same of up to sixteen rows of a; what belongs to no row is undefined.
void copied_left(const Pair* from, std::int64_t row, std::int64_t rows, std::int64_t pairs,
                 Pair* to);
/// The last tile of depth of a block's columns, so many pairs deep: as a panel, with zeros below.
void padded_right(const Pair* from, std::int64_t columns, std::int64_t pairs, Pair* to);

}  // namespace penstock::ops::bf16
