// Readers of GGUF's blocks for products with 8-bit integers (int8_rows.h): each gives its codes as
// unsigned bytes, 64 at a time, and what multiplies them. The formats are those of row_readers.h.
// Used inside PENSTOCK_PER_CPU functions only.
#pragma once

#include "penstock/ops/cpu/row_readers.h"

namespace penstock::ops::cpu {

/// Lane l of the result: that of the sum, and Σ of the four bytes there times those of x.
struct DotPortably {
  /// The 32 bytes at `a`, and behind them those at `b` or zeros.
  PENSTOCK_INLINE static UInt16 both(const std::byte* a, const std::byte* b) {
    UInt16 out{};
    std::memcpy(&out, a, 32);
    if (b) std::memcpy(reinterpret_cast<std::byte*>(&out) + 32, b, 32);
    return out;
  }
  PENSTOCK_INLINE static UInt16 twice(const std::byte* at) { return both(at, at); }
  PENSTOCK_INLINE static Int16 dot(Int16 sum, const UInt16& codes, const UInt16& x) {
#pragma GCC unroll 4
    for (int byte = 0; byte < 4; ++byte)
      sum += std::bit_cast<Int16>((codes >> (8 * byte)) & 255u) *
             (std::bit_cast<Int16>(x << (24 - 8 * byte)) >> 24);
    return sum;
  }
};

#if defined(__x86_64__)
/// The same as one instruction, inside functions for processors that have AVX512-VNNI.
struct DotByVnni {
  // In assembly as well: the compiler puts halves together in memory, which waits for both.
  PENSTOCK_INLINE static UInt16 both(const std::byte* a, const std::byte* b) {
    UInt16 out;
    asm("vmovdqu32 %1, %t0" : "=v"(out) : "m"(*reinterpret_cast<const std::byte(*)[32]>(a)));
    if (b)
      asm("vinserti64x4 $1, %1, %0, %0"
          : "+v"(out)
          : "m"(*reinterpret_cast<const std::byte(*)[32]>(b)));
    return out;
  }
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

/// A reader has: kNumbers of a step, kBytes of it, and kChunks of 64 numbers; kOffset, the power of
/// two that its codes lie above their values, or −1; begin(); for a row of x, whose scales
/// Int8Rows::scales() says, what multiplies its chunks, begin_row(), which may add to the row's
/// sums; codes(c); and factor(row, c). kAlone is as in row_readers.h.

/// Two blocks of 32 at a time, or one where the row ends with it.
template <class Widen, class Dot>
struct Int8Q80 {
  static constexpr std::int64_t kNumbers = 64, kBytes = 68;
  static constexpr int kChunks = 1, kOffset = 7, kAlone = 8;
  struct Row {
    Vec16 factor;
  };
  UInt16 bytes;
  Vec16 scales;
  PENSTOCK_INLINE void begin(const std::byte* at, bool one) {
    bytes = Dot::both(at + 2, one ? nullptr : at + 36) ^ 0x80808080u;
    scales = choose(lanes_between(0, 0, 8), Widen::half(at), one ? Vec16{} : Widen::half(at + 34));
  }
  PENSTOCK_INLINE Row begin_row(const float* x, Vec16&) const {
    return {scales * choose(lanes_between(0, 0, 8), splat(x[0]), splat(x[1]))};
  }
  PENSTOCK_INLINE UInt16 codes(int) const { return bytes; }
  PENSTOCK_INLINE static Vec16 factor(const Row& row, int) { return row.factor; }
};

template <class Widen, class Dot>
struct Int8Q4K {
  static constexpr std::int64_t kNumbers = 256, kBytes = 144;
  static constexpr int kChunks = 4, kOffset = -1, kAlone = 4;
  struct Row {
    Vec16 parts;  // the first eight lanes
  };
  const std::byte* block;
  Vec16 scales;
  PENSTOCK_INLINE void begin(const std::byte* at, bool) {
    block = at + 16;
    scales = q4_k_scales<Widen>(at);
  }
  PENSTOCK_INLINE Row begin_row(const float* x, Vec16& sums) const {
    const Vec16 parts = scales * load(x);
    sums += choose(lanes_between(0, 8, 16), parts, Vec16{});  // the minima
    return {parts};
  }
  PENSTOCK_INLINE UInt16 codes(int c) const {
    const UInt16 shift = {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4};
    return (Dot::twice(block + 32 * c) >> shift) & 0x0f0f0f0fu;
  }
  PENSTOCK_INLINE static Vec16 factor(const Row& row, int c) {
    const int a = 2 * c, b = 2 * c + 1;
    return __builtin_shuffle(row.parts, Int16{a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b});
  }
};

template <class Widen, class Dot>
struct Int8Q6K {
  static constexpr std::int64_t kNumbers = 256, kBytes = 210;
  static constexpr int kChunks = 4, kOffset = 5, kAlone = 4;
  struct Row {
    Vec16 parts;
  };
  const std::byte* block;
  Vec16 scales;
  PENSTOCK_INLINE void begin(const std::byte* at, bool) {
    block = at;
    scales = __builtin_convertvector(Widen::with_sign(at + 192), Vec16) * Widen::half(at + 208);
  }
  PENSTOCK_INLINE Row begin_row(const float* x, Vec16&) const {
    return {scales *
            __builtin_shuffle(load(x), Int16{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7})};
  }
  PENSTOCK_INLINE UInt16 codes(int c) const {
    const std::byte* const low = block + 64 * (c / 2);
    const std::uint32_t a = 4 * static_cast<std::uint32_t>(c % 2), b = a + 2;
    const UInt16 shift = {a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b};
    return ((bytes_at<UInt16>(low) >> a) & 0x0f0f0f0fu) |
           ((Dot::twice(block + 128 + 32 * (c / 2)) >> shift) & 0x03030303u) << 4;
  }
  PENSTOCK_INLINE static Vec16 factor(const Row& row, int c) {
    const int a = 4 * c;
    return __builtin_shuffle(row.parts, Int16{a, a, a, a, a + 1, a + 1, a + 1, a + 1, a + 2, a + 2,
                                              a + 2, a + 2, a + 3, a + 3, a + 3, a + 3});
  }
};

}  // namespace penstock::ops::cpu
