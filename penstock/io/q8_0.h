// Q8_0, GGUF's 8-bit format: blocks of 32 numbers that share a scale. small_blocks.h and k_blocks.h
// have the other formats.
#pragma once

#include <cstddef>
#include <span>

namespace penstock {

inline constexpr std::size_t kQ8Block = 32;       ///< numbers in a block
inline constexpr std::size_t kQ8BlockBytes = 34;  ///< an f16 scale and 32 signed bytes

/// scale = max |x| / 127;  q_i = round(x_i / scale), halves away from zero. The quotient uses the
/// f32 scale; the block stores it as f16. A block of zeros has scale 0.
/// @param values  [a multiple of 32];  @param out  34 bytes for each 32 values (both asserted)
/// Throws Error for a number that is not finite, and for a scale that f16 cannot hold.
/// Source: the format's reference quantiser in ggml.
void quantise_q8_0(std::span<const float> values, std::span<std::byte> out);

/// x_i = scale · q_i.  Sizes as above (asserted).
void dequantise_q8_0(std::span<const std::byte> blocks, std::span<float> out);

}  // namespace penstock
