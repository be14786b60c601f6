// GGUF's "K" formats: blocks of 256 numbers in 4, 5 or 6 bits. Each part of a block has a scale
// (and a minimum), which is a small integer times the block's scale (or minimum). io/quantise_k.h
// chooses codes and scales for given numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

inline constexpr std::size_t kKBlock = 256;      ///< numbers in a block
inline constexpr std::size_t kKPart = 32;        ///< numbers in a part of Q4_K and Q5_K
inline constexpr std::size_t kKSixBitPart = 16;  ///< numbers in a part of Q6_K

/// The scales and the minima of the eight parts: 6-bit integers.
struct KPartScales {
  std::array<std::uint8_t, kKBlock / kKPart> scale, minimum;
};
using KPackedScales = std::array<std::uint8_t, 12>;

/// The low six bits of bytes 0 to 3 are the scales of parts 0 to 3, those of bytes 4 to 7 their
/// minima. Bytes 8 to 11 have the low four bits of the scales (low half) and minima (high half) of
/// parts 4 to 7; the high two bits of these are the high two bits of bytes 0 to 3 and 4 to 7.
KPartScales unpack_scales(const KPackedScales& packed);
KPackedScales pack_scales(const KPartScales& scales);

struct Q4KBlock {                // 144 bytes
  std::uint16_t scale, minimum;  ///< f16
  KPackedScales parts;
  std::array<std::uint8_t, kKBlock / 2> codes;  ///< 32 bytes for two parts; the first: low 4 bits
};
struct Q5KBlock {  // 176 bytes
  std::uint16_t scale, minimum;
  KPackedScales parts;
  std::array<std::uint8_t, kKPart> high;  ///< bit p of byte i: highest bit of number i of part p
  std::array<std::uint8_t, kKBlock / 2> codes;  ///< the low 4 bits, as in Q4_K
};
/// Each half of 128 numbers has four rows of 32. The low four bits of a code are in the low half
/// (rows 0 and 1) or high half (rows 2 and 3) of a byte of `low`; its high two bits are in `high`,
/// four codes in a byte.
struct Q6KBlock {  // 210 bytes
  std::array<std::uint8_t, kKBlock / 2> low;
  std::array<std::uint8_t, kKBlock / 4> high;
  std::array<std::int8_t, kKBlock / kKSixBitPart> parts;
  std::uint16_t scale;
};

/// Where the bits of a number's code are in a block of Q6_K.
struct SixBitPlace {
  std::size_t low, high;  ///< bytes
  int low_shift, high_shift;
};
constexpr SixBitPlace six_bit_place(std::size_t number) {
  const std::size_t half = number / 128, row = number / 32 % 4, i = number % 32;
  return {.low = 64 * half + row % 2 * 32 + i,
          .high = 32 * half + i,
          .low_shift = static_cast<int>(row / 2 * 4),
          .high_shift = static_cast<int>(2 * row)};
}

/// x_i = (scale · s_p) · q_i − minimum · m_p, with 4-bit q_i; p is the part of number i.
/// REQUIRES, here and below: whole blocks (asserted).
/// Source: ggml's format.
void dequantise_q4_k(std::span<const std::byte> blocks, std::span<float> out);
/// The same with 5-bit q_i.
void dequantise_q5_k(std::span<const std::byte> blocks, std::span<float> out);
/// x_i = (scale · s_p) · (q_i − 32), with 6-bit q_i and signed s_p.
void dequantise_q6_k(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace penstock
