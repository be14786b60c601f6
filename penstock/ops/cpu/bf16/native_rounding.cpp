#include "penstock/ops/cpu/bf16/native_rounding.h"

#include "penstock/ops/cpu/bf16/tiles.h"
#include "penstock/ops/machine/product_unit.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

namespace penstock::ops::bf16 {
namespace {

using Halves = std::uint16_t __attribute__((vector_size(64)));

/// Rounds sixteen values at `first`, then sixteen values at `second`. `count` and `more` values
/// exist there; the others are zeros.
PENSTOCK_BF16 inline Halves rounded(const float* first, std::int64_t count, const float* second,
                                    std::int64_t more) {
  const auto part = [](const float* from, std::int64_t n) PENSTOCK_BF16 {
    if (n >= 16) return _mm512_loadu_ps(from);
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << std::max<std::int64_t>(0, n)) - 1),
                                 from);
  };
  const __m512 low = part(first, count);
  return (Halves)_mm512_cvtne2ps_pbh(part(second, more), low);
}

PENSTOCK_BF16 void round_row(std::int64_t n, const float* from, std::uint16_t* to) {
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    _mm512_storeu_si512(to + i, (__m512i)rounded(from + i, 16, from + i + 16, 16));
  if (i == n) return;
  const auto mask = static_cast<__mmask32>((std::uint32_t{1} << (n - i)) - 1);
  _mm512_mask_storeu_epi16(to + i, mask,
                           (__m512i)rounded(from + i, n - i, from + i + 16, n - i - 16));
}

PENSTOCK_BF16 void pack_pair(std::int64_t columns, const float* first, const float* second,
                             Pair* to, std::int64_t panel) {
  constexpr Halves kInterleave{0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                               8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  for (std::int64_t j = 0; j < columns; j += kPanel, to += panel)
    for (std::int64_t i = 0; i < kPanel; i += 16) {
      const std::int64_t left = columns - j - i, at = left > 0 ? j + i : 0;
      const Halves both =
          rounded(first + at, left, second ? second + at : first, second ? left : 0);
      _mm512_storeu_si512(to + i, (__m512i)__builtin_shuffle(both, kInterleave));
    }
}

}  // namespace

const NativeRounding* native_rounding() {
  static constexpr NativeRounding kNative{round_row, pack_pair};
  static const bool has = available(ProductUnit::avx512) && __builtin_cpu_supports("avx512vl");
  return has ? &kNative : nullptr;
}

}  // namespace penstock::ops::bf16

#else

namespace penstock::ops::bf16 {

const NativeRounding* native_rounding() { return nullptr; }

}  // namespace penstock::ops::bf16

#endif
