// Reads GGUF's Q4_0, Q4_1, Q5_0 and Q5_1: blocks of 32 numbers in 4 or 5 bits that share a scale,
// or a scale and a minimum. Files use them for rows that do not fill the blocks of io/k_blocks.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

inline constexpr std::size_t kSmallBlock = 32;  ///< numbers in a block

using SmallCodes = std::array<std::uint8_t, kSmallBlock / 2>;  ///< low 4 bits: i; high: i + 16
using SmallHighBits = std::array<std::uint8_t, kSmallBlock / 8>;

struct Q40Block {  // 18 bytes
  std::uint16_t scale;
  SmallCodes codes;
};
struct Q41Block {  // 20 bytes
  std::uint16_t scale, minimum;
  SmallCodes codes;
};
struct Q50Block {  // 22 bytes
  std::uint16_t scale;
  SmallHighBits high;
  SmallCodes codes;
};
struct Q51Block {  // 24 bytes
  std::uint16_t scale, minimum;
  SmallHighBits high;
  SmallCodes codes;
};

/// x_i = scale · (q_i − 8), with 4-bit q_i.  REQUIRES, here and below: whole blocks (asserted).
/// Source: ggml's format.
void dequantise_q4_0(std::span<const std::byte> blocks, std::span<float> out);
/// x_i = scale · q_i + minimum, with 4-bit q_i.
void dequantise_q4_1(std::span<const std::byte> blocks, std::span<float> out);
/// x_i = scale · (q_i − 16), with 5-bit q_i.
void dequantise_q5_0(std::span<const std::byte> blocks, std::span<float> out);
/// x_i = scale · q_i + minimum, with 5-bit q_i.
void dequantise_q5_1(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace penstock
