// Transformer-XL: norms after the sub-layers, relative positions, a memory of earlier segments,
// embedding and softmax tied; dense or MoE per layer, by config.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/layers/feed_forward.h"
#include "penstock/layers/moe.h"
#include "penstock/layers/norm.h"
#include "penstock/layers/relative_attention.h"
#include "penstock/models/adaptive_softmax.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// Seeds of a pass's dropouts, from one draw of its generator; none outside training.
class DropoutSeeds {
 public:
  DropoutSeeds(double p, const RoutingContext& context);
  /// x as it is, or with the dropout of that site. Sites have numbers of their own.
  at::Tensor apply(const at::Tensor& x, std::int64_t site) const;
  /// nullopt: no dropout.
  std::optional<std::int64_t> seed(std::int64_t site) const;

 private:
  double p_;
  bool active_ = false;
  std::uint64_t draw_ = 0;
};

/// x ← Norm(x + Drop(Attention(x, memory)));  x ← Norm(x + Drop(FFN or MoE(x))).
class TransformerXlLayer : public torch::nn::Module {
 public:
  /// `moe_index` counts MoE layers; -1 for a dense layer.
  TransformerXlLayer(const ModelConfig& config, const ModelPlace& place, std::int64_t index,
                     std::int64_t moe_index,
                     const std::vector<std::shared_ptr<Balancer>>& balancers);
  /// Matrices and biases of positions ~ N(0, std²), gains ~ N(1, std²).
  void initialize(double std, const InitialDraws& draws);
  /// @param shared  the model's position biases, or undefined where the layer has its own
  at::Tensor forward(const at::Tensor& x, const at::Tensor& memory, const at::Tensor& distances,
                     const PositionBiases& shared, const DropoutSeeds& seeds,
                     const RoutingContext& context, std::optional<RoutingResult>& routing);
  /// forward(), of which the input alone is kept for the backward pass (layers/recomputed.h).
  /// @param parameters  all that the layer's gradients go to, `shared` included
  at::Tensor forward_again(const at::Tensor& x, const at::Tensor& memory,
                           const at::Tensor& distances, const PositionBiases& shared,
                           const DropoutSeeds& seeds, const RoutingContext& context,
                           const std::vector<at::Tensor>& parameters,
                           std::optional<RoutingResult>& routing);
  /// Null for a dense layer.
  MoeLayer* moe() { return moe_.get(); }

 private:
  std::int64_t index_;
  std::shared_ptr<RelativeAttention> self_attn_;
  std::shared_ptr<LayerNorm> attention_norm_, ffn_norm_;
  std::shared_ptr<FeedForward> mlp_;
  std::shared_ptr<MoeLayer> moe_;
  PositionBiases biases_;
};

/// Source: Transformer-XL (arXiv:1901.02860) as SMoE-Dropout and HyperRouter use it: u and v shared
/// by all layers, every cached position readable, no norm after the last layer. The router reads
/// what the attention's norm gave.
class TransformerXl : public LanguageModel {
 public:
  explicit TransformerXl(const ModelConfig& config, const ModelPlace& place = {});
  /// Matrices, embedding, u and v ~ N(0, init_std²), gains ~ N(1, init_std²); biases stay 0.
  void initialize(const InitialDraws& draws) override;

  /// The memory handed on holds the layers' inputs at the last positions of memory and segment.
  ModelOutput forward(const ModelInput& input, const RoutingContext& context,
                      const RoutingTap& routing_tap = {},
                      const HiddenTap& hidden_tap = {}) override;
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& targets) const override;
  at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const override;
  at::Tensor logits(const at::Tensor& hidden) const override;

 private:
  std::int64_t memory_length(const ModelInput& input) const;
  /// Through one layer, computed again in the backward pass where that was asked for.
  at::Tensor through(std::int64_t index, const at::Tensor& x, const at::Tensor& memory,
                     const at::Tensor& distances, const DropoutSeeds& seeds,
                     const RoutingContext& context, std::optional<RoutingResult>& routing);

  at::Tensor embed_tokens_;  // [V, d]
  PositionBiases biases_;    // undefined where layers have their own
  std::vector<std::shared_ptr<TransformerXlLayer>> layers_;
  AdaptiveSoftmax head_;
};

}  // namespace penstock
