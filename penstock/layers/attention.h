// Causal self-attention with rotary positions and grouped queries. The projections of queries, keys
// and values are one matrix. No dropout, no sliding window.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/norm.h"
#include "penstock/layers/projection.h"
#include "penstock/layers/rank_rows.h"

namespace penstock {

struct AttentionConfig {
  std::int64_t d_model = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool qkv_bias = false;
  bool rope_adjacent = false;  ///< rotate pairs (2i, 2i+1), as llama2.c does, instead of halves
  /// Widths of the RMS norms of q and k: the width of all heads together, or of one head; 0: no
  /// norms.
  std::int64_t q_norm_width = 0, k_norm_width = 0;
  double clip_qkv = 0;  ///< q, k and v are clamped to ± this value after the norms; 0: not clamped
  double norm_eps = 1e-5;
};

/// One layer's keys and values of B sequences, of up to C positions each. The sequences are read
/// piece by piece.
struct AttentionCache {
  at::Tensor keys, values;  ///< [B, C, G, hd]; keys are rotated
};

/// Sequences of a cache that get new positions, the same number each.
struct CachedRows {
  at::Tensor rows;         ///< [R] i64, indices of the sequences among the B
  at::Tensor lengths;      ///< [R] i64, positions that the cache holds of each sequence
  at::Tensor rotation;     ///< [C, hd]
  std::int64_t count = 1;  ///< new positions of each sequence
  std::int64_t positions() const { return rows.size(0) * count; }
};

/// Norms of queries and keys over their whole width, and the clamp, are those of OLMoE
/// (arXiv:2409.02060). Norms over each head are those of Qwen3 (arXiv:2505.09388).
class Attention : public torch::nn::Module {
 public:
  /// @param rows  Each of its ranks computes the attention of an equal part of the heads, and holds
  ///              their rows of qkv_proj and their columns of o_proj. If the ranks divide the rows,
  ///              inputs and outputs are the rows that this rank holds. The gradients of q_norm and
  ///              k_norm on a rank come from the rank's heads alone.
  explicit Attention(const AttentionConfig& config, RankRows rows = {});
  /// Adds the layer's tensors as if one rank held all of them.
  static void describe(const AttentionConfig& config, const LayerTensors& at);
  /// A token's multiply-adds for each position that it reads: score and value.
  static std::int64_t multiply_adds_per_pair(const AttentionConfig& config) {
    return 2 * config.heads * config.head_dim;
  }
  /// Draws the projections of q, k and v from N(0, std²), and the output projection from
  /// N(0, output_std²).
  void initialize(double std, double output_std, const InitialDraws& draws);

  /// @param x [B, T, d];  @param rotation [T, hd]: see ops::rotation_table
  /// @param start [B, T] i64: the first position that each row may read, or nullopt for no limit
  /// @return [B, T, d]
  at::Tensor forward(const at::Tensor& x, const at::Tensor& rotation,
                     const std::optional<at::Tensor>& start);

  /// Attention of new positions over the cached positions and themselves. Adds the new positions to
  /// the cache. No gradient.
  /// @param where  groups of sequences; the sequences of a group get equally many new positions
  /// @param x [.., d], the new positions in the order of `where`.  @return the same shape as x
  /// REQUIRES: ranks do not divide the rows; no sequence is in two groups.
  at::Tensor extend(const at::Tensor& x, const AttentionCache& cache,
                    std::span<const CachedRows> where);

 private:
  /// Queries, keys and values of sequences of `length` positions, before the rotation:
  /// [B, T, (H+2G)·hd].
  at::Tensor projected(const at::Tensor& x, std::int64_t length);

  AttentionConfig config_;  // heads of this rank
  RankRows rows_;
  std::shared_ptr<Projection> qkv_proj_;  // [(H+2G)·hd, d]: queries, keys, values
  std::shared_ptr<Projection> o_proj_;
  std::shared_ptr<RmsNorm> q_norm_, k_norm_;  // null without norms
};

}  // namespace penstock
