// Readers of rows in the types of files. A reader gives the numbers of a block as f32, sixteen at a
// time, with the bits that the type defines. It computes nothing from them. io/q8_0.h,
// io/small_blocks.h and io/k_blocks.h name the sources of the formats; their code is the tests'
// oracle. Used inside PENSTOCK_PER_CPU functions only.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "penstock/base/half.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu {

using Byte16 = std::uint8_t __attribute__((vector_size(16)));
using SignedByte16 = std::int8_t __attribute__((vector_size(16)));
using Short16 = std::uint16_t __attribute__((vector_size(32)));

/// The Value at `from`, of any alignment.
template <class Value>
PENSTOCK_INLINE Value bytes_at(const std::byte* from) {
  Value out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}

/// Converts sixteen bytes or sixteen integers of 16 bits to integers of 32 bits, and sixteen f16 to
/// f32. Bytes take two steps, which g++ 12 keeps in vectors; it splits a single step byte by byte.
struct WidenPortably {
  using Halves = std::int16_t __attribute__((vector_size(32)));
  PENSTOCK_INLINE static Int16 plain(const std::byte* at) {
    return __builtin_convertvector(__builtin_convertvector(bytes_at<Byte16>(at), Halves), Int16);
  }
  PENSTOCK_INLINE static Int16 with_sign(const std::byte* at) {
    return __builtin_convertvector(__builtin_convertvector(bytes_at<SignedByte16>(at), Halves),
                                   Int16);
  }
  PENSTOCK_INLINE static UInt16 shorts(const std::byte* at) {
    return __builtin_convertvector(bytes_at<Short16>(at), UInt16);
  }
  PENSTOCK_INLINE static Vec16 halves(const std::byte* at) {
    const UInt16 half = shorts(at);
    const UInt16 size = half & 0x7fffu;
    // Below 2^-14 the bits count units of 2^-24. From 0x7c00 on they are infinities and NaNs.
    const Vec16 small = __builtin_convertvector(std::bit_cast<Int16>(size), Vec16) * 0x1p-24f;
    UInt16 bits = (size << 13) + (112u << 23);
    bits = size >= 0x7c00u ? bits + (112u << 23) : bits;
    bits = size < 0x400u ? std::bit_cast<UInt16>(small) : bits;
    return std::bit_cast<Vec16>(bits | (half & 0x8000u) << 16);
  }
  /// The f16 at `at`, in every lane.
  PENSTOCK_INLINE static Vec16 half(const std::byte* at) {
    return splat(f16_to_f32(bytes_at<std::uint16_t>(at)));
  }
};

#if defined(__x86_64__)
/// Does what WidenPortably does with AVX-512's instructions. It uses assembly, because intrinsics
/// cannot be inlined into templates that other processors' functions share. Used inside functions
/// for x86-64-v4 only.
struct WidenByAvx512 {
  PENSTOCK_INLINE static Int16 plain(const std::byte* at) {
    Int16 out;
    asm("vpmovzxbd %1, %0" : "=v"(out) : "m"(*reinterpret_cast<const std::byte(*)[16]>(at)));
    return out;
  }
  PENSTOCK_INLINE static Int16 with_sign(const std::byte* at) {
    Int16 out;
    asm("vpmovsxbd %1, %0" : "=v"(out) : "m"(*reinterpret_cast<const std::byte(*)[16]>(at)));
    return out;
  }
  PENSTOCK_INLINE static UInt16 shorts(const std::byte* at) {
    UInt16 out;
    asm("vpmovzxwd %1, %0" : "=v"(out) : "m"(*reinterpret_cast<const std::byte(*)[32]>(at)));
    return out;
  }
  PENSTOCK_INLINE static Vec16 halves(const std::byte* at) {
    Vec16 out;
    asm("vcvtph2ps %1, %0" : "=v"(out) : "m"(*reinterpret_cast<const std::byte(*)[32]>(at)));
    return out;
  }
  PENSTOCK_INLINE static Vec16 half(const std::byte* at) {
    Short16 halves;
    Vec16 out;
    asm("vpbroadcastw %1, %0" : "=v"(halves) : "m"(*reinterpret_cast<const std::byte(*)[2]>(at)));
    asm("vcvtph2ps %1, %0" : "=v"(out) : "v"(halves));  // converts denormal numbers in any mode
    return out;
  }
};
#endif

/// A reader has:
///   kNumbers and kBytes: the numbers and the bytes of a block;
///   begin(block): selects the block;
///   lanes(part, v): the sixteen numbers from 16·(kVectors·part + v) on, for part < kParts and
///     v < kVectors; the compiler knows v.
struct ReadF32 {
  static constexpr std::int64_t kNumbers = 16, kBytes = 64;
  static constexpr int kParts = 1, kVectors = 1;
  const std::byte* block;
  PENSTOCK_INLINE void begin(const std::byte* at) { block = at; }
  PENSTOCK_INLINE Vec16 lanes(int, int) const { return bytes_at<Vec16>(block); }
  PENSTOCK_INLINE static float one(const std::byte* at) { return bytes_at<float>(at); }
};

template <class Widen>
struct ReadBf16 {
  static constexpr std::int64_t kNumbers = 16, kBytes = 32;
  static constexpr int kParts = 1, kVectors = 1;
  const std::byte* block;
  PENSTOCK_INLINE void begin(const std::byte* at) { block = at; }
  PENSTOCK_INLINE Vec16 lanes(int, int) const {
    return std::bit_cast<Vec16>(Widen::shorts(block) << 16);
  }
  PENSTOCK_INLINE static float one(const std::byte* at) {
    return std::bit_cast<float>(std::uint32_t{bytes_at<std::uint16_t>(at)} << 16);
  }
};

template <class Widen>
struct ReadF16 {
  static constexpr std::int64_t kNumbers = 16, kBytes = 32;
  static constexpr int kParts = 1, kVectors = 1;
  const std::byte* block;
  PENSTOCK_INLINE void begin(const std::byte* at) { block = at; }
  PENSTOCK_INLINE Vec16 lanes(int, int) const { return Widen::halves(block); }
  PENSTOCK_INLINE static float one(const std::byte* at) {
    return f16_to_f32(bytes_at<std::uint16_t>(at));
  }
};

/// An f16 scale, and 32 signed bytes.
template <class Widen>
struct ReadQ80 {
  static constexpr std::int64_t kNumbers = 32, kBytes = 34;
  static constexpr int kParts = 1, kVectors = 2;
  const std::byte* codes;
  Vec16 scale;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    scale = Widen::half(at);
    codes = at + 2;
  }
  PENSTOCK_INLINE Vec16 lanes(int, int v) const {
    return __builtin_convertvector(Widen::with_sign(codes + 16 * v), Vec16) * scale;
  }
};

/// Sixteen codes of 4 bits: the low halves (high = 0) or the high halves (high = 1) of sixteen
/// bytes.
template <class Widen>
PENSTOCK_INLINE Int16 nibbles(const std::byte* codes, int high) {
  const Int16 pair = Widen::plain(codes);
  return high == 0 ? pair & 15 : pair >> 4;
}

/// The fifth bits of sixteen codes: lane i is 16 where bit 16·v + i of `bits` is set, else 0.
PENSTOCK_INLINE Int16 fifth_bits(std::uint32_t bits, int v) {
  constexpr Int16 kLane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Int16 all = static_cast<std::int32_t>((bits >> 16 * v) & 0xffffu) - Int16{};
  return ((all >> kLane) & 1) << 4;
}

/// An f16 scale, and 32 codes of 4 bits, each 8 above its value. The low bits hold the first half.
template <class Widen>
struct ReadQ40 {
  static constexpr std::int64_t kNumbers = 32, kBytes = 18;
  static constexpr int kParts = 1, kVectors = 2;
  const std::byte* codes;
  Vec16 scale;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    scale = Widen::half(at);
    codes = at + 2;
  }
  PENSTOCK_INLINE Vec16 lanes(int, int v) const {
    return __builtin_convertvector(nibbles<Widen>(codes, v) - 8, Vec16) * scale;
  }
};

/// An f16 scale, an f16 minimum, and 32 codes of 4 bits.
template <class Widen>
struct ReadQ41 {
  static constexpr std::int64_t kNumbers = 32, kBytes = 20;
  static constexpr int kParts = 1, kVectors = 2;
  const std::byte* codes;
  Vec16 scale, minimum;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    scale = Widen::half(at);
    minimum = Widen::half(at + 2);
    codes = at + 4;
  }
  PENSTOCK_INLINE Vec16 lanes(int, int v) const {
    return __builtin_convertvector(nibbles<Widen>(codes, v), Vec16) * scale + minimum;
  }
};

/// An f16 scale, the fifth bit of each code, and the codes' other 4 bits. A code is 16 above its
/// value.
template <class Widen>
struct ReadQ50 {
  static constexpr std::int64_t kNumbers = 32, kBytes = 22;
  static constexpr int kParts = 1, kVectors = 2;
  const std::byte* codes;
  std::uint32_t high;
  Vec16 scale;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    scale = Widen::half(at);
    high = bytes_at<std::uint32_t>(at + 2);
    codes = at + 6;
  }
  PENSTOCK_INLINE Vec16 lanes(int, int v) const {
    const Int16 code = nibbles<Widen>(codes, v) | fifth_bits(high, v);
    return __builtin_convertvector(code - 16, Vec16) * scale;
  }
};

/// As ReadQ50, with an f16 minimum after the scale, and with codes equal to their values.
template <class Widen>
struct ReadQ51 {
  static constexpr std::int64_t kNumbers = 32, kBytes = 24;
  static constexpr int kParts = 1, kVectors = 2;
  const std::byte* codes;
  std::uint32_t high;
  Vec16 scale, minimum;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    scale = Widen::half(at);
    minimum = Widen::half(at + 2);
    high = bytes_at<std::uint32_t>(at + 4);
    codes = at + 8;
  }
  PENSTOCK_INLINE Vec16 lanes(int, int v) const {
    const Int16 code = nibbles<Widen>(codes, v) | fifth_bits(high, v);
    return __builtin_convertvector(code, Vec16) * scale + minimum;
  }
};

/// The scales of a block of Q4_K or Q5_K. Each of the eight parts of 32 numbers has a scale and a
/// minimum of 6 bits. The block begins with two f16, which multiply the scales and the minima.
/// @return the eight scales, then the eight minima
template <class Widen>
PENSTOCK_INLINE Vec16 q4_k_scales(const std::byte* at) {
  const auto a = bytes_at<std::uint32_t>(at + 4), b = bytes_at<std::uint32_t>(at + 8),
             c = bytes_at<std::uint32_t>(at + 12);
  // Four values of six bits at a time. The bytes of the first four parts hold the high two bits of
  // the last four parts above their own six bits.
  const std::uint32_t six[4] = {a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | ((a >> 6) & 0x03030303u) << 4,
                                b & 0x3f3f3f3fu,
                                ((c >> 4) & 0x0f0f0f0fu) | ((b >> 6) & 0x03030303u) << 4};
  const Vec16 whole =
      __builtin_convertvector(Widen::plain(reinterpret_cast<const std::byte*>(six)), Vec16);
  return whole * choose(lanes_between(0, 0, 8), Widen::half(at), Widen::half(at + 2));
}

/// Codes of 4 bits follow the scales. Two parts share 32 bytes.
template <class Widen>
struct ReadQ4K {
  static constexpr std::int64_t kNumbers = 256, kBytes = 144;
  static constexpr int kParts = 4, kVectors = 4;
  const std::byte* codes;
  float scales[16];  // the eight scales, then the eight minima
  PENSTOCK_INLINE void begin(const std::byte* at) {
    store(scales, q4_k_scales<Widen>(at));
    codes = at + 16;
  }
  PENSTOCK_INLINE Vec16 lanes(int part, int v) const {
    const Int16 pair = Widen::plain(codes + 32 * part + 16 * (v % 2));
    const Vec16 code = __builtin_convertvector(v < 2 ? pair & 15 : pair >> 4, Vec16);
    const int p = 2 * part + v / 2;
    return code * scales[p] - scales[8 + p];
  }
};

/// As Q4_K, with 32 bytes between scales and codes. Their bit p is the fifth bit of part p's codes.
template <class Widen>
struct ReadQ5K {
  static constexpr std::int64_t kNumbers = 256, kBytes = 176;
  static constexpr int kParts = 4, kVectors = 4;
  const std::byte* high;
  float scales[16];  // the eight scales, then the eight minima
  PENSTOCK_INLINE void begin(const std::byte* at) {
    store(scales, q4_k_scales<Widen>(at));
    high = at + 16;
  }
  PENSTOCK_INLINE Vec16 lanes(int part, int v) const {
    const int p = 2 * part + v / 2, column = 16 * (v % 2);
    const Int16 low = nibbles<Widen>(high + 32 + 32 * part + column, v / 2);
    const Int16 fifth = ((Widen::plain(high + column) >> p) & 1) << 4;
    return __builtin_convertvector(low | fifth, Vec16) * scales[p] - scales[8 + p];
  }
};

/// The low 4 bits of the codes, their high 2 bits, 16 scales of a signed byte, and an f16 that
/// multiplies the scales. A code is 32 above its value.
template <class Widen>
struct ReadQ6K {
  static constexpr std::int64_t kNumbers = 256, kBytes = 210;
  static constexpr int kParts = 2, kVectors = 8;
  const std::byte* block;
  float scale;
  PENSTOCK_INLINE void begin(const std::byte* at) {
    block = at;
    scale = f16_to_f32(bytes_at<std::uint16_t>(at + 208));
  }
  PENSTOCK_INLINE Vec16 lanes(int part, int v) const {
    const int row = v / 2, column = 16 * (v % 2);
    const Int16 low =
        __builtin_convertvector(bytes_at<Byte16>(block + 64 * part + row % 2 * 32 + column), Int16);
    const Int16 high = Widen::plain(block + 128 + 32 * part + column);
    const Int16 code = ((row < 2 ? low & 15 : low >> 4) | ((high >> 2 * row) & 3) << 4) - 32;
    const auto own = bytes_at<std::int8_t>(block + 192 + 8 * part + v);
    return __builtin_convertvector(code, Vec16) * (scale * static_cast<float>(own));
  }
};

}  // namespace penstock::ops::cpu
