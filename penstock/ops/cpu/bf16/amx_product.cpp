#include "penstock/ops/cpu/bf16/amx_product.h"

#include "penstock/base/error.h"

#if defined(__x86_64__)
#include <algorithm>

#include "penstock/ops/cpu/bf16/amx_block.h"
#include "penstock/ops/cpu/bf16/amx_scope.h"

namespace penstock::ops::bf16 {
namespace {

constexpr std::int64_t kDepth = 256;  // pairs of depth of a block: a's tiles stay in the L1 cache

/// A block's rows of a as tiles. Rows that are not stored as tiles are copied to the object's
/// memory.
class Left {
 public:
  Left(const PairProduct& p, const Pair* a) : p_(p), a_(a) {}

  /// Rows [i, i + 32), pairs [k, k + pairs).
  std::array<LeftTiles, 2> at(std::int64_t i, std::int64_t k, std::int64_t pairs) {
    return {tiles(i, k, pairs, memory_[0]), tiles(i + kTile, k, pairs, memory_[1])};
  }

 private:
  LeftTiles tiles(std::int64_t i, std::int64_t k, std::int64_t pairs, Pair* memory) const {
    const LeftTiles own{.at = memory, .row = kTile, .step = kTile * kTile};
    if (i >= p_.rows) return own;
    if (p_.a_row == 0) {
      transposed_left(a_ + i / kPanel * p_.a_panel + k * kPanel + i % kPanel, pairs, memory);
      return own;
    }
    const Pair* from = a_ + i * p_.a_row + k;
    if (i + kTile <= p_.rows && pairs % kTile == 0)
      return {.at = from, .row = p_.a_row, .step = kTile};
    copied_left(from, p_.a_row, std::min(kTile, p_.rows - i), pairs, memory);
    return own;
  }

  const PairProduct& p_;
  const Pair* a_;
  alignas(64) Pair memory_[2][kTile * kDepth];
};

void add_depth(const PairProduct& p, Left& left, const Pair* b, std::int64_t k, float* c) {
  alignas(64) Pair padded[kTile * kPanel];
  const std::int64_t pairs = std::min(kDepth, p.pairs - k), whole = pairs / kTile * kTile;
  const std::int64_t steps = (pairs + kTile - 1) / kTile;
  const std::int64_t ahead = steps > 0 ? (kBlock + steps - 1) / steps : 0;
  for (std::int64_t i = 0; i < p.rows; i += kBlock) {
    const auto tiles = left.at(i, k, pairs);
    for (std::int64_t j = 0; j < p.columns; j += kBlock) {
      const Pair* right = b + j / kPanel * p.b_panel + k * kPanel + j % kPanel;
      const std::int64_t columns = std::min(kBlock, p.columns - j);
      if (whole < pairs) padded_right(right + whole * kPanel, columns, pairs - whole, padded);
      amx_block({.rows = std::min(kBlock, p.rows - i),
                 .columns = columns,
                 .steps = steps,
                 .left = tiles,
                 .right = right,
                 .last = whole < pairs ? padded
                                       : right + std::max<std::int64_t>(whole - kTile, 0) * kPanel,
                 .c = c + i * p.c_row + j,
                 .c_row = p.c_row,
                 .accumulate = p.accumulate || k > 0,
                 .next = j + kBlock < p.columns ? c + i * p.c_row + j + kBlock
                                                : c + (i + kBlock) * p.c_row,
                 .ahead = ahead});
    }
  }
}

}  // namespace

void amx_product(const PairProduct& p, const Pair* a, const Pair* b, float* c) {
  const AmxScope scope;
  Left left(p, a);
  std::int64_t k = 0;
  do {
    add_depth(p, left, b, k, c);
    k += kDepth;
  } while (k < p.pairs);
}

}  // namespace penstock::ops::bf16

#else

namespace penstock::ops::bf16 {

void amx_product(const PairProduct&, const Pair*, const Pair*, float*) {
  assertion_failed("has_amx()", "no AMX");
}

}  // namespace penstock::ops::bf16

#endif
