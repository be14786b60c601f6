#include "penstock/ops/cpu/bf16/amx_block.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

namespace penstock::ops::bf16 {
namespace {

/// The memory of a tile of sums: c, or a buffer where a whole tile would reach beyond c.
class Sums {
 public:
  PENSTOCK_AMX void take(const AmxBlock& block, std::int64_t i, std::int64_t j) {
    rows_ = std::min(kTile, block.rows - i);
    const std::int64_t columns = std::min(kTile, block.columns - j);
    c_ = block.c + i * block.c_row + j;
    c_row_ = block.c_row;
    whole_ = rows_ == kTile && columns == kTile;
    mask_ = static_cast<__mmask16>(0xffff >> (kTile - columns));
    if (whole_ || !block.accumulate) return;
    for (std::int64_t r = 0; r < rows_; ++r)
      _mm512_store_ps(beside_ + r * kTile, _mm512_maskz_loadu_ps(mask_, c_ + r * c_row_));
  }
  PENSTOCK_AMX void give() const {
    if (whole_) return;
    for (std::int64_t r = 0; r < rows_; ++r)
      _mm512_mask_storeu_ps(c_ + r * c_row_, mask_, _mm512_load_ps(beside_ + r * kTile));
  }
  float* at() { return whole_ ? c_ : beside_; }
  std::int64_t row_bytes() const { return 4 * (whole_ ? c_row_ : kTile); }

 private:
  float* c_;
  std::int64_t rows_, c_row_;
  bool whole_;
  __mmask16 mask_;
  alignas(64) float beside_[kTile * kTile];
};

/// A barrier for the compiler. The tile instructions name no memory, so without a barrier the
/// compiler could delay stores or move them past the instructions.
inline void settle_memory() { asm volatile("" ::: "memory"); }

template <int rows, int columns>
PENSTOCK_AMX void run(const AmxBlock& p) {
  constexpr std::int64_t kPanelBytes = kPanel * sizeof(Pair);
  Sums sums[2][2];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) sums[i][j].take(p, kTile * i, kTile * j);
  settle_memory();
  // Tiles 0 to 3 are sums, tiles 4 and 5 are from a, tiles 6 and 7 are from b.
  if (p.accumulate) {
    _tile_loadd(0, sums[0][0].at(), sums[0][0].row_bytes());
    if constexpr (columns > 1) _tile_loadd(1, sums[0][1].at(), sums[0][1].row_bytes());
    if constexpr (rows > 1) _tile_loadd(2, sums[1][0].at(), sums[1][0].row_bytes());
    if constexpr (rows > 1 && columns > 1) _tile_loadd(3, sums[1][1].at(), sums[1][1].row_bytes());
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const auto [upper, lower] = p.left;
  const float* next = p.next;
  for (std::int64_t k = 0; k < p.steps; ++k) {
    for (std::int64_t r = 0; r < p.ahead; ++r, next += p.c_row) {
      _m_prefetchw((void*)next);
      _m_prefetchw((void*)(next + kTile));
    }
    const Pair* b = k + 1 < p.steps ? p.right + k * kTile * kPanel : p.last;
    _tile_loadd(4, upper.at + k * upper.step, upper.row * sizeof(Pair));
    _tile_loadd(6, b, kPanelBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (columns > 1) {
      _tile_loadd(7, b + kTile, kPanelBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (rows > 1) {
      _tile_loadd(5, lower.at + k * lower.step, lower.row * sizeof(Pair));
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (columns > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0][0].at(), sums[0][0].row_bytes());
  if constexpr (columns > 1) _tile_stored(1, sums[0][1].at(), sums[0][1].row_bytes());
  if constexpr (rows > 1) _tile_stored(2, sums[1][0].at(), sums[1][0].row_bytes());
  if constexpr (rows > 1 && columns > 1) _tile_stored(3, sums[1][1].at(), sums[1][1].row_bytes());
  settle_memory();
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) sums[i][j].give();
}

}  // namespace

void amx_block(const AmxBlock& block) {
  if (block.rows > kTile)
    block.columns > kTile ? run<2, 2>(block) : run<2, 1>(block);
  else
    block.columns > kTile ? run<1, 2>(block) : run<1, 1>(block);
}

}  // namespace penstock::ops::bf16
#endif
