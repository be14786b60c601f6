// Choosing codes and scales of GGUF's K formats (io/k_blocks.h) for given numbers, by least
// squares.
#pragma once

#include <cstddef>
#include <span>

namespace penstock {

/// Q4_K blocks near the numbers x.  For each part of 32, with codes q_i = round((x_i − low) / s)
/// for 21 scales s around (high − low)/15, the scale a and minimum b ≥ 0 that minimise Σ (a·q_i − b
/// − x_i)²; the block's two f16 scales are the largest a and b over 63; then of each part's
/// integers near a and b, nine pairs, those whose nearest codes have the least squared error.
/// @param values  a multiple of 256, finite;  @param out  144 bytes for each 256 (sizes asserted)
/// Throws Error for a number that is not finite, and for scales that f16 cannot hold.
/// Cost: some 100 operations a number; one thread.
void quantise_q4_k(std::span<const float> values, std::span<std::byte> out);

/// The same with a weight for each square: Σ w_i (a·q_i − b − x_i)². Where the block without
/// weights has the smaller sum, that block is written. Weights of 1 give the same bits.
/// @param weights  one for each number, above 0 and finite (asserted).  Cost: more than twice that.
void quantise_q4_k(std::span<const float> values, std::span<const float> weights,
                   std::span<std::byte> out);

/// Q6_K blocks near the numbers x: for each part of 16, with codes for 19 scales around the one
/// that takes the largest number to −32, the least squares a = Σ q·x / Σ q²; the block's scale
/// takes the largest a to −128; then of three integers near a the best. 210 bytes for each 256
/// numbers; otherwise as above.
void quantise_q6_k(std::span<const float> values, std::span<std::byte> out);

/// The same with weights, as above: a = Σ w·q·x / Σ w·q².
void quantise_q6_k(std::span<const float> values, std::span<const float> weights,
                   std::span<std::byte> out);

}  // namespace penstock
