// Causal attention of new positions over a cache of keys and values: the operator and its kernels.
// Callers use only the operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace penstock::ops {

/// Attends from n new positions of each of R sequences. Takes queries, keys and values from a
/// packed projection, as causal_attention does. Appends the rotated keys and the values to the
/// cache, then attends over all cached positions.
///   y_{r,t} = Σ_{s ≤ lengths[r] + t} softmax_s(q_t·k_s · scale) v_s
/// @param qkv [R, n, (H+2G)·hd] f32|f64: H query heads, G key heads, G value heads
/// @param keys, values [B, C, G, hd], written at positions lengths[r] .. lengths[r] + n − 1
/// @param rows [R] i64 CPU: indices into the B sequences, each at most once
/// @param lengths [R] i64 CPU: the number of cached positions of each sequence
/// @param rotation [≥ C, hd]: see rotation_table; row p rotates position p.  nullopt: none
/// @param rope_adjacent  as in causal_attention
/// @return [R, n, H·hd].  No gradient: throws Error if one is wanted.
/// Cost: causal_attention's kernel computes prompts at the start of a sequence. It also computes
/// many positions that continue a sequence.
at::Tensor cached_attention(const at::Tensor& qkv, const at::Tensor& keys, const at::Tensor& values,
                            const at::Tensor& rows, const at::Tensor& lengths, double scale,
                            const std::optional<at::Tensor>& rotation = std::nullopt,
                            bool rope_adjacent = false);

/// The arguments, checked.
struct CachedAttention {
  at::Tensor qkv, keys, values, rows, lengths;
  double scale = 1;
  at::Tensor rotation;  ///< or undefined
  bool rope_adjacent = false;

  std::int64_t count() const { return qkv.size(0); }      ///< R
  std::int64_t fresh() const { return qkv.size(1); }      ///< n
  std::int64_t capacity() const { return keys.size(1); }  ///< C
  std::int64_t kv_heads() const { return keys.size(2); }  ///< G
  std::int64_t head_dim() const { return keys.size(3); }  ///< hd
  std::int64_t heads() const { return qkv.size(2) / head_dim() - 2 * kv_heads(); }
  std::int64_t row(std::int64_t r) const { return rows.data_ptr<std::int64_t>()[r]; }
  std::int64_t length(std::int64_t r) const { return lengths.data_ptr<std::int64_t>()[r]; }
};
std::string describe(const CachedAttention& problem);

namespace reference {
at::Tensor cached_attention(const CachedAttention& problem);
}  // namespace reference

namespace cpu {
/// For whole prompts of 16 positions or more. Runs causal_attention's kernel.
std::string declines_prompt_attention(const CachedAttention& problem);
at::Tensor prompt_attention(const CachedAttention& problem);
/// For more than 16 positions. Works in blocks, as causal_attention's kernel does, and packs the
/// cached keys and values in each call. A sequence's result does not depend on the others.
std::string declines_block_attention(const CachedAttention& problem);
at::Tensor block_attention(const CachedAttention& problem);
/// Works row by row. Threads divide the (sequence, key/value head) pairs. A position's result
/// depends neither on other sequences nor on the number of new positions.
std::string declines_step_attention(const CachedAttention& problem);
at::Tensor step_attention(const CachedAttention& problem);
}  // namespace cpu

}  // namespace penstock::ops
