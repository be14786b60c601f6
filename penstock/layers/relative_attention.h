// Transformer-XL's self-attention with relative positions and a memory of earlier segments. No
// dropout of the weights, no residual.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/projection.h"

namespace penstock {

struct RelativeAttentionConfig {
  std::int64_t d_model = 0, heads = 0, head_dim = 0;
};

/// The two learned vectors of each head that replace a query's absolute position.
struct PositionBiases {
  at::Tensor content, position;  ///< u and v of the paper, [H, hd] each

  /// Registers the biases with `module`: the attention's layer, or a model whose layers share the
  /// biases. Values are not initialised.
  static PositionBiases registered(torch::nn::Module& module,
                                   const RelativeAttentionConfig& config);
  /// Adds the biases' tensors.
  static void describe(const RelativeAttentionConfig& config, const LayerTensors& at);
  /// Draws both from N(0, std²).
  void initialize(double std, const InitialDraws& draws) const;
};

class RelativeAttention : public torch::nn::Module {
 public:
  explicit RelativeAttention(const RelativeAttentionConfig& config);
  /// Adds the layer's tensors. Position biases are not among them.
  static void describe(const RelativeAttentionConfig& config, const LayerTensors& at);
  /// A token's multiply-adds for each position that it reads: score by content, score by distance,
  /// and value.
  static std::int64_t multiply_adds_per_pair(const RelativeAttentionConfig& config) {
    return 3 * config.heads * config.head_dim;
  }
  /// Draws all projections from N(0, std²).
  void initialize(double std, const InitialDraws& draws);

  /// Attention of a segment over itself and the memory; see ops::relative_attention.
  /// @param x [B, T, d];  @param memory [B, M, d], the earlier segments, or undefined for none
  /// @param distances [M+T, d]: row δ is the sinusoid of distance δ.  @return [B, T, d]
  /// Gradient: x, distances, biases, parameters.
  /// Source: Transformer-XL, arXiv:1901.02860, §3.3.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& memory, const at::Tensor& distances,
                     const PositionBiases& biases);

 private:
  RelativeAttentionConfig config_;
  std::shared_ptr<Projection> q_proj_, kv_proj_, r_proj_, o_proj_;  // kv: keys, then values
};

/// Sines, then cosines, of δ / base^(2i/d) for distances δ = 0 .. count − 1, computed in f64.
/// @return [count, d], typed by `options`.  REQUIRES: d is even.
at::Tensor distance_table(std::int64_t count, std::int64_t d, const at::TensorOptions& options,
                          double base = 1e4);

}  // namespace penstock
