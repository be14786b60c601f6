// Causal self-attention with rotary positions and grouped queries, its three projections in one.
// No dropout, no sliding window.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "penstock/layers/projection.h"

namespace penstock {

struct AttentionConfig {
  std::int64_t d_model = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool qkv_bias = false;
  bool rope_adjacent = false;  ///< rotate pairs (2i, 2i+1), as llama2.c does, instead of halves
  double init_std = 0.02;
  double output_std = 0.02;  ///< of the projection back into the residual stream
};

class Attention : public torch::nn::Module {
 public:
  explicit Attention(const AttentionConfig& config);

  /// @param x [B, T, d];  @param rotation [T, hd]: see ops::rotation_table
  /// @param start [B, T] i64: first position each row may read, or nullopt.  @return [B, T, d]
  at::Tensor forward(const at::Tensor& x, const at::Tensor& rotation,
                     const std::optional<at::Tensor>& start);

 private:
  AttentionConfig config_;
  std::shared_ptr<Projection> qkv_proj_;  // [(H+2G)·hd, d]: queries, keys, values
  std::shared_ptr<Projection> o_proj_;
};

}  // namespace penstock
