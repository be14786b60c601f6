// Functions that the compiler can vectorise inside a `#pragma omp simd` loop, and the attribute
// that compiles such a loop once per instruction set and picks a copy at load time. No intrinsics,
// no global -march: the same source runs everywhere.
#pragma once

#include <bit>
#include <cstdint>

// The sanitizers also instrument the function that picks a copy at load time. It runs before their
// runtime is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_HAS_CLONES
#define PENSTOCK_PER_CPU \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PENSTOCK_PER_CPU
#endif
// Inlines a function into each copy, so that it is compiled for that copy's instruction set.
#define PENSTOCK_INLINE inline __attribute__((always_inline))

namespace penstock::ops::cpu {

/// e^x with relative error below 2e-7 for x in [−87, 88]; x outside is clamped.  Splits
/// x = n·ln 2 + r and evaluates the polynomial of Cephes' expf in r.
PENSTOCK_INLINE float fast_exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f;  // the low bits now hold n
  const float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const auto exponent = static_cast<std::uint32_t>(std::bit_cast<std::int32_t>(shifted)) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

/// 1 / (1 + e^−x).
PENSTOCK_INLINE float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

/// sqrt(x) for x ≥ 0 with relative error below 3e-7: three Newton steps on the reciprocal root.
/// (The library's sqrt sets errno, which keeps the compiler from vectorising it.)
PENSTOCK_INLINE float fast_sqrt(float x) {
  float r = std::bit_cast<float>(0x5f375a86u - (std::bit_cast<std::uint32_t>(x) >> 1));
  r = r * (1.5f - 0.5f * x * r * r);
  r = r * (1.5f - 0.5f * x * r * r);
  r = r * (1.5f - 0.5f * x * r * r);
  return x * r;
}

}  // namespace penstock::ops::cpu
