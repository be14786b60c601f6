// Causal self-attention with rotary positions and grouped queries, its three projections in one.
// No dropout, no sliding window.
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
  /// Widths of the RMS norms of q and of k: of all heads, or of each head; 0: none.
  std::int64_t q_norm_width = 0, k_norm_width = 0;
  double clip_qkv = 0;  ///< q, k and v are cut to ± this, after the norms; 0: not
  double norm_eps = 1e-5;
};

/// What one layer holds of sequences that are read bit by bit, B of them of up to C positions.
struct AttentionCache {
  at::Tensor keys, values;  ///< [B, C, G, hd]; keys are rotated
};

/// Which sequences of a cache go on, where, and by how many positions each.
struct CachedRows {
  at::Tensor rows;      ///< [R] i64, of the B
  at::Tensor lengths;   ///< [R] i64, positions that each holds
  at::Tensor rotation;  ///< [C, hd]
  std::int64_t count = 1;
  std::int64_t positions() const { return rows.size(0) * count; }
};

/// Norms of queries and keys over their whole width, and the cut, are OLMoE's (arXiv:2409.02060);
/// norms over each head are Qwen3's (arXiv:2505.09388).
class Attention : public torch::nn::Module {
 public:
  /// @param rows  whose ranks each compute the attention of an equal part of the heads, and hold
  ///              their rows of qkv_proj and columns of o_proj. Where these divide the rows, x and
  ///              what is returned are the rows held. The gradients of q_norm and k_norm are a
  ///              rank's share, of its heads.
  explicit Attention(const AttentionConfig& config, RankRows rows = {});
  /// Adds the tensors of such a layer, as if one rank had them all.
  static void describe(const AttentionConfig& config, const LayerTensors& at);
  /// Multiply-adds of a token for each position that it reads: score and value.
  static std::int64_t multiply_adds_per_pair(const AttentionConfig& config) {
    return 2 * config.heads * config.head_dim;
  }
  /// Projections of q, k and v ~ N(0, std²), the one back into the residual stream ~
  /// N(0, output_std²).
  void initialize(double std, double output_std, const InitialDraws& draws);

  /// @param x [B, T, d];  @param rotation [T, hd]: see ops::rotation_table
  /// @param start [B, T] i64: first position each row may read, or nullopt.  @return [B, T, d]
  at::Tensor forward(const at::Tensor& x, const at::Tensor& rotation,
                     const std::optional<at::Tensor>& start);

  /// The same for positions that follow what the cache holds, which takes them in. No gradient.
  /// @param where  sequences by how many positions they go on, one such group after another
  /// @param x [.., d], the positions in that order.  @return of x's shape
  /// REQUIRES: ranks do not divide the rows; no sequence is in two groups.
  at::Tensor extend(const at::Tensor& x, const AttentionCache& cache,
                    std::span<const CachedRows> where);

 private:
  /// What rotation and attention read of rows of sequences of that length: [B, T, (H+2G)·hd].
  at::Tensor projected(const at::Tensor& x, std::int64_t length);

  AttentionConfig config_;  // heads of this rank
  RankRows rows_;
  std::shared_ptr<Projection> qkv_proj_;  // [(H+2G)·hd, d]: queries, keys, values
  std::shared_ptr<Projection> o_proj_;
  std::shared_ptr<RmsNorm> q_norm_, k_norm_;  // null where there are none
};

}  // namespace penstock
