// Quantises numbers to GGUF's K formats (io/k_blocks.h): chooses codes and scales by least squares.
#pragma once

#include <cstddef>
#include <span>

namespace penstock {

/// Q4_K blocks close to the numbers x, in three steps. (1) For each part of 32, codes
/// q_i = round((x_i − low) / s) for 21 scales s around (high − low)/15; of these, the scale a and
/// minimum b ≥ 0 that minimise Σ (a·q_i − b − x_i)². (2) The block's two f16 scales are the largest
/// a and b over 63. (3) For each part, the pair of integers near a and b, of nine pairs, whose
/// nearest codes have the least squared error.
/// @param values  [a multiple of 256], finite;  @param out  144 bytes for each 256 (sizes asserted)
/// Throws Error for a number that is not finite, and for scales that f16 cannot hold.
/// Cost: some 100 operations per number; one thread.
void quantise_q4_k(std::span<const float> values, std::span<std::byte> out);

/// The same with a weight for each square: Σ w_i (a·q_i − b − x_i)². If the unweighted block has a
/// smaller weighted sum, it is written instead. Weights of 1 give the bits of the unweighted block.
/// @param weights  one for each number, above 0 and finite (asserted).  Cost: more than twice as
/// much.
void quantise_q4_k(std::span<const float> values, std::span<const float> weights,
                   std::span<std::byte> out);

/// Q6_K blocks close to the numbers x, in three steps. (1) For each part of 16, codes for 19 scales
/// around the one that maps the largest number to −32; of these, the best with its least-squares
/// scale a = Σ q·x / Σ q². (2) The block's scale maps the largest a to −128. (3) For each part, the
/// best of three integers near a. 210 bytes for each 256 numbers; otherwise as above.
void quantise_q6_k(std::span<const float> values, std::span<std::byte> out);

/// The same with weights, as above: a = Σ w·q·x / Σ w·q².
void quantise_q6_k(std::span<const float> values, std::span<const float> weights,
                   std::span<std::byte> out);

}  // namespace penstock
