// Sixteen floats as one value, for loops with reductions: when the compiler vectorises such a loop
// by itself, it keeps the reduction in memory. The type is the compiler's vector type, which the
// compiler lowers to each instruction set. Used inside PENSTOCK_PER_CPU functions only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "penstock/ops/cpu/vector_math.h"

// Values are passed between inlined functions only, so their calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace penstock::ops::cpu {

using Vec16 = float __attribute__((vector_size(64)));
using Int16 = std::int32_t __attribute__((vector_size(64)));
using UInt16 = std::uint32_t __attribute__((vector_size(64)));  // where unread lanes may overflow
constexpr std::int64_t kLanes = 16;

PENSTOCK_INLINE Vec16 load(const float* from) {
  Vec16 x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
PENSTOCK_INLINE void store(float* to, const Vec16& x) { std::memcpy(to, &x, sizeof(x)); }
PENSTOCK_INLINE Vec16 splat(float x) { return x - Vec16{}; }
PENSTOCK_INLINE Vec16 larger(const Vec16& a, const Vec16& b) { return a > b ? a : b; }

/// All ones in lane i where begin ≤ first + i < end. It reads a table, because the compiler
/// compares integers lane by lane.
PENSTOCK_INLINE Int16 lanes_between(std::int64_t first, std::int64_t begin, std::int64_t end) {
  static constexpr std::int32_t kOnes[3 * kLanes] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                                     0,  0,  0,  0,  0,  -1, -1, -1, -1, -1, -1,
                                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  Int16 from, to;
  std::memcpy(&from, kOnes + kLanes - std::clamp<std::int64_t>(begin - first, 0, kLanes),
              sizeof(from));
  std::memcpy(&to, kOnes + 2 * kLanes - std::clamp<std::int64_t>(end - first, 0, kLanes),
              sizeof(to));
  return from & to;
}
/// x where the mask is set, else y.
PENSTOCK_INLINE Vec16 choose(const Int16& mask, const Vec16& x, const Vec16& y) {
  return std::bit_cast<Vec16>((std::bit_cast<Int16>(x) & mask) | (std::bit_cast<Int16>(y) & ~mask));
}

/// fast_exp of each lane.
PENSTOCK_INLINE Vec16 fast_exp(const Vec16& from) {
  Vec16 x = from < -87.0f ? splat(-87.0f) : from;
  x = x > 88.0f ? splat(88.0f) : x;
  const Vec16 shifted = x * 1.44269504f + 12582912.0f;
  const Vec16 n = shifted - 12582912.0f;
  Vec16 r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Vec16 p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return std::bit_cast<Vec16>(std::bit_cast<UInt16>(p) + (std::bit_cast<UInt16>(shifted) << 23));
}

/// 2^x of each lane with relative error below 2e-7 for x in [−126, 127]; 2^−126 for smaller x.
PENSTOCK_INLINE Vec16 fast_exp2(const Vec16& from) {
  const Vec16 x = larger(splat(-126.0f), from);
  const Vec16 shifted = x + 12582912.0f;  // the low bits now hold the nearest integer
  const Vec16 r = x - (shifted - 12582912.0f);
  Vec16 p = splat(1.535336188e-4f);  // Cephes' exp2f
  p = p * r + 1.339887440e-3f;
  p = p * r + 9.618437357e-3f;
  p = p * r + 5.550332471e-2f;
  p = p * r + 2.402264791e-1f;
  p = p * r + 6.931472029e-1f;
  p = p * r + 1.0f;
  return std::bit_cast<Vec16>(std::bit_cast<UInt16>(p) + (std::bit_cast<UInt16>(shifted) << 23));
}

/// Natural logarithm of each lane with an error below 2e-7, relative or absolute, for normal x > 0.
PENSTOCK_INLINE Vec16 fast_log(const Vec16& x) {
  const Int16 bits = std::bit_cast<Int16>(x);
  const Int16 exponent = (bits - 0x3f3504f3) >> 23;  // x / 2^exponent is in [sqrt(1/2), sqrt(2))
  const Vec16 f = std::bit_cast<Vec16>(bits - (exponent << 23)) - 1.0f;
  Vec16 p = splat(7.0376836292e-2f);  // Cephes' logf
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const Vec16 squared = f * f;
  const Vec16 n = __builtin_convertvector(exponent, Vec16);
  return n * 0.693147181f + (f - 0.5f * squared + p * f * squared);
}

/// The lanes' sum. Each step adds one half of the lanes to the other half.
PENSTOCK_INLINE float sum(const Vec16& from) {
  Vec16 x = from;
  x += __builtin_shuffle(x, Int16{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  x += __builtin_shuffle(x, Int16{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
  x += __builtin_shuffle(x, Int16{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
  return x[0] + x[1];
}

/// Lane i is the sum of the lanes of from[i], added in the order of sum().
PENSTOCK_INLINE Vec16 sums_of_16(const Vec16* from) {
  Vec16 halves[8], quarters[4], pairs[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    halves[i] =
        __builtin_shuffle(from[i], from[i + 8],
                          Int16{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}) +
        __builtin_shuffle(from[i], from[i + 8],
                          Int16{8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31});
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    quarters[i] =
        __builtin_shuffle(halves[i], halves[i + 4],
                          Int16{0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27}) +
        __builtin_shuffle(halves[i], halves[i + 4],
                          Int16{4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31});
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    pairs[i] = __builtin_shuffle(quarters[i], quarters[i + 2],
                                 Int16{0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29}) +
               __builtin_shuffle(quarters[i], quarters[i + 2],
                                 Int16{2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31});
  return __builtin_shuffle(pairs[0], pairs[1],
                           Int16{0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30}) +
         __builtin_shuffle(pairs[0], pairs[1],
                           Int16{1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31});
}

/// to[i] = sum(from[i]) for N vectors, with the same bits as sum(). Sixteen vectors are summed
/// together, which takes fewer shuffles.
template <int N>
PENSTOCK_INLINE void store_sums(const Vec16* from, float* to) {
  if constexpr (N >= 16) {
    store(to, sums_of_16(from));
    store_sums<N - 16>(from + 16, to + 16);
  } else if constexpr (N >= 8) {
    Vec16 padded[16]{};
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) padded[i] = from[i];
    float sums[16];
    store(sums, sums_of_16(padded));
    std::copy_n(sums, N, to);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) to[i] = sum(from[i]);
  }
}

/// The largest lane.
PENSTOCK_INLINE float largest(const Vec16& from) {
  Vec16 x = from;
  x = larger(x, __builtin_shuffle(x, Int16{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
  x = larger(x, __builtin_shuffle(x, Int16{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
  x = larger(x, __builtin_shuffle(x, Int16{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
  return x[0] > x[1] ? x[0] : x[1];
}

}  // namespace penstock::ops::cpu
