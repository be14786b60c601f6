// GGUF's "K" formats: blocks of 256 numbers in 4, 5 or 6 bits. The parts of a block have their own
// scales (and minima), which are small integers times a scale (and a minimum) of the block.
// io/quantise_k.h chooses codes and scales for given numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

inline constexpr std::size_t kKBlock = 256;      ///< numbers in a block
inline constexpr std::size_t kKPart = 32;        ///< numbers in a part of Q4_K and Q5_K
inline constexpr std::size_t kKSixBitPart = 16;  ///< numbers in a part of Q6_K

/// The scales and the minima of eight parts: integers of 6 bits.
struct KPartScales {
  std::array<std::uint8_t, kKBlock / kKPart> scale, minimum;
};
using KPackedScales = std::array<std::uint8_t, 12>;

/// Bytes 0 to 3: scales of parts 0 to 3; 4 to 7: their minima; 8 to 11: the low four bits of the
/// scales and, above, of the minima of parts 4 to 7, whose high two bits are those of bytes 0 to 7.
KPartScales unpack_scales(const KPackedScales& packed);
KPackedScales pack_scales(const KPartScales& scales);

struct Q4KBlock {                // 144 bytes
  std::uint16_t scale, minimum;  ///< f16
  KPackedScales parts;
  std::array<std::uint8_t, kKBlock / 2> codes;  ///< 32 bytes for two parts: the first one's low
};
struct Q5KBlock {  // 176 bytes
  std::uint16_t scale, minimum;
  KPackedScales parts;
  std::array<std::uint8_t, kKPart> high;  ///< bit p of byte i: the highest of number i, part p
  std::array<std::uint8_t, kKBlock / 2> codes;  ///< as of Q4_K
};
/// Each half of 128 numbers lies in four rows of 32, of which a code's low four bits are in the low
/// (rows 0 and 1) or high bits (2 and 3) of `low`, and its high two bits in `high`, 2 by 2.
struct Q6KBlock {  // 210 bytes
  std::array<std::uint8_t, kKBlock / 2> low;
  std::array<std::uint8_t, kKBlock / 4> high;
  std::array<std::int8_t, kKBlock / kKSixBitPart> parts;
  std::uint16_t scale;
};

/// The place of a number's code in a block of Q6_K.
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

/// x_i = (scale · s_p) · q_i − minimum · m_p,  q_i of 4 bits, p the part of number i.
/// This and the other functions take whole blocks (asserted).
/// Source: ggml's format.
void dequantise_q4_k(std::span<const std::byte> blocks, std::span<float> out);
/// The same with q_i of 5 bits.
void dequantise_q5_k(std::span<const std::byte> blocks, std::span<float> out);
/// x_i = (scale · s_p) · (q_i − 32),  q_i of 6 bits, s_p signed.
void dequantise_q6_k(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace penstock
