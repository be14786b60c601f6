// Readers of GGUF's blocks for products with 8-bit integers (int8_rows.h). A reader gives the codes
// of a block as unsigned bytes, 64 at a time, and their factors. The formats are those of
// row_readers.h. Used inside PENSTOCK_PER_CPU functions only.
#pragma once

#include "penstock/ops/cpu/few_rows/row_readers.h"

namespace penstock::ops::cpu {

/// dot(): lane l of the result is lane l of `sum` plus Σ of the lane's four codes times its four
/// bytes of x.
struct DotPortably {
  /// The 32 bytes at `at`, twice.
  PENSTOCK_INLINE static UInt16 twice(const std::byte* at) {
    UInt16 out;
    std::memcpy(&out, at, 32);
    std::memcpy(reinterpret_cast<std::byte*>(&out) + 32, at, 32);
    return out;
  }
  PENSTOCK_INLINE static Int16 dot(Int16 sum, const UInt16& codes, const UInt16& x) {
#pragma GCC unroll 4
    for (int byte = 0; byte < 4; ++byte)
      sum += std::bit_cast<Int16>((codes >> (8 * byte)) & 255u) *
             (std::bit_cast<Int16>(x << (24 - 8 * byte)) >> 24);
    return sum;
  }
};

#if defined(__x86_64__)
/// Does what DotPortably does with one instruction. Used inside functions for processors that have
/// AVX512-VNNI.
struct DotByVnni {
  // Also in assembly: the compiler would join the halves in memory, and wait for both stores.
  PENSTOCK_INLINE static UInt16 twice(const std::byte* at) {
    UInt16 out;
    asm("vbroadcasti64x4 %1, %0" : "=v"(out) : "m"(*reinterpret_cast<const std::byte(*)[32]>(at)));
    return out;
  }
  PENSTOCK_INLINE static Int16 dot(Int16 sum, const UInt16& codes, const UInt16& x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(x));
    return sum;
  }
};
#endif

/// A reader of blocks has:
///   kNumbers and kBytes: the numbers and the bytes of a block;
///   kOffset: codes are 2^kOffset above their values, or equal to their values where it is −1;
///   begin(block): selects the block;
///   parts(x, sums): the factors of the block's numbers for a row of x. `x` is at the row's
///     Int8Rows::scales(). The function may add a share of the product to the row's `sums`;
///   codes(c): the codes of the 64 numbers from 64·c on;
///   factor(parts, c): the factors of these 64 numbers.
template <class Widen, class Dot>
struct Int8Q4K {
  static constexpr std::int64_t kNumbers = 256, kBytes = 144;
  static constexpr int kOffset = -1;
  const std::byte* block;
  Vec16 scales;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    block = at + 16;
    scales = q4_k_scales<Widen>(at);
  }
  PENSTOCK_INLINE Vec16 parts(const float* x, Vec16& sums) const {
    const Vec16 out = scales * load(x);
    sums += choose(lanes_between(0, 8, 16), out, Vec16{});  // the share of the minima
    return out;
  }
  PENSTOCK_INLINE UInt16 codes(int c) const {
    const UInt16 shift = {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4};
    return (Dot::twice(block + 32 * c) >> shift) & 0x0f0f0f0fu;
  }
  PENSTOCK_INLINE static Vec16 factor(const Vec16& parts, int c) {
    const int a = 2 * c, b = 2 * c + 1;
    return __builtin_shuffle(parts, Int16{a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b});
  }
};

template <class Widen, class Dot>
struct Int8Q6K {
  static constexpr std::int64_t kNumbers = 256, kBytes = 210;
  static constexpr int kOffset = 5;
  const std::byte* block;
  Vec16 scales;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    block = at;
    scales = __builtin_convertvector(Widen::with_sign(at + 192), Vec16) * Widen::half(at + 208);
  }
  PENSTOCK_INLINE Vec16 parts(const float* x, Vec16&) const {
    return scales *
           __builtin_shuffle(load(x), Int16{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
  }
  PENSTOCK_INLINE UInt16 codes(int c) const {
    const std::byte* const low = block + 64 * (c / 2);
    const std::uint32_t a = 4 * static_cast<std::uint32_t>(c % 2), b = a + 2;
    const UInt16 shift = {a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b};
    return ((bytes_at<UInt16>(low) >> a) & 0x0f0f0f0fu) |
           ((Dot::twice(block + 128 + 32 * (c / 2)) >> shift) & 0x03030303u) << 4;
  }
  PENSTOCK_INLINE static Vec16 factor(const Vec16& parts, int c) {
    const int a = 4 * c;
    return __builtin_shuffle(parts, Int16{a, a, a, a, a + 1, a + 1, a + 1, a + 1, a + 2, a + 2,
                                          a + 2, a + 2, a + 3, a + 3, a + 3, a + 3});
  }
};

}  // namespace penstock::ops::cpu
