// Copies of operands to AMX's tiles, for operands that are not stored as tiles.
#include "penstock/ops/cpu/bf16/amx_block.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace penstock::ops::bf16 {
namespace {

using Row = std::uint32_t __attribute__((vector_size(64)));
using Index = std::uint32_t __attribute__((vector_size(64)));

/// Interleave two rows within each four lanes: one value at a time, or two.
constexpr Index kLow{0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29};
constexpr Index kHigh{2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31};
constexpr Index kLowTwo{0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
constexpr Index kHighTwo{2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
/// Select four lanes of every eight of both rows: the even fours, or the odd fours.
constexpr Index kEven{0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
constexpr Index kOdd{4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};

/// Transposes sixteen rows: first within blocks of 4 × 4, then the blocks.
PENSTOCK_AMX inline void transpose(Row (&x)[16]) {
  Row y[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = __builtin_shuffle(x[i], x[i + 1], kLow);
    y[i + 1] = __builtin_shuffle(x[i], x[i + 1], kHigh);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = __builtin_shuffle(y[i], y[i + 2], kLowTwo);
    x[i + 1] = __builtin_shuffle(y[i], y[i + 2], kHighTwo);
    x[i + 2] = __builtin_shuffle(y[i + 1], y[i + 3], kLowTwo);
    x[i + 3] = __builtin_shuffle(y[i + 1], y[i + 3], kHighTwo);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    y[i] = __builtin_shuffle(x[i], x[i + 4], kEven);
    y[i + 4] = __builtin_shuffle(x[i], x[i + 4], kOdd);
    y[i + 8] = __builtin_shuffle(x[i + 8], x[i + 12], kEven);
    y[i + 12] = __builtin_shuffle(x[i + 8], x[i + 12], kOdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = __builtin_shuffle(y[i], y[i + 8], kEven);
    x[i + 8] = __builtin_shuffle(y[i], y[i + 8], kOdd);
    x[i + 4] = __builtin_shuffle(y[i + 4], y[i + 12], kEven);
    x[i + 12] = __builtin_shuffle(y[i + 4], y[i + 12], kOdd);
  }
}

}  // namespace

PENSTOCK_AMX void transposed_left(const Pair* from, std::int64_t pairs, Pair* to) {
  for (; pairs > 0; pairs -= kTile, from += kTile * kPanel, to += kTile * kTile) {
    Row rows[16] = {};
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k)
      if (k < pairs) std::memcpy(&rows[k], from + k * kPanel, sizeof(Row));
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) std::memcpy(to + i * kTile, &rows[i], sizeof(Row));
  }
}

PENSTOCK_AMX void copied_left(const Pair* from, std::int64_t row, std::int64_t rows,
                              std::int64_t pairs, Pair* to) {
  for (; pairs > 0; pairs -= kTile, from += kTile, to += kTile * kTile) {
    const auto mask = static_cast<__mmask16>(0xffff >> std::max<std::int64_t>(0, kTile - pairs));
    for (std::int64_t i = 0; i < rows; ++i)
      _mm512_store_si512(to + i * kTile, _mm512_maskz_loadu_epi32(mask, from + i * row));
  }
}

PENSTOCK_AMX void padded_right(const Pair* from, std::int64_t columns, std::int64_t pairs,
                               Pair* to) {
  for (std::int64_t k = 0; k < kTile; ++k, to += kPanel, from += kPanel)
    for (std::int64_t j = 0; j < columns; j += kTile)
      _mm512_store_si512(to + j, k < pairs ? _mm512_loadu_si512(from + j) : _mm512_setzero_si512());
}

}  // namespace penstock::ops::bf16
#endif
