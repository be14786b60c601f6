// One layer of Transformer-XL: relative attention and a feed-forward or experts, each followed by
// its norm, with the dropout of the pass. The embedding and the head are not here.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/feed_forward.h"
#include "penstock/layers/moe.h"
#include "penstock/layers/norm.h"
#include "penstock/layers/relative_attention.h"
#include "penstock/models/dropout_seeds.h"
#include "penstock/models/model_config.h"
#include "penstock/models/model_place.h"

namespace penstock {

/// The options of a layer's attention and of the position biases, which the layer or the model has.
RelativeAttentionConfig relative_attention_config(const ModelConfig& config);

/// x ← Norm(x + Drop(Attention(x, memory)));  x ← Norm(x + Drop(FFN or MoE(x))).
class TransformerXlLayer : public torch::nn::Module {
 public:
  /// `moe_index` counts MoE layers; -1 for a dense layer.
  TransformerXlLayer(const ModelConfig& config, const ModelPlace& place, std::int64_t index,
                     std::int64_t moe_index,
                     const std::vector<std::shared_ptr<Balancer>>& balancers);
  /// Adds the tensors of a layer, except the tensors of its scorer.
  /// @param moe  null: a dense layer
  static void describe(const ModelConfig& config, const MoeOptions* moe, const LayerTensors& at);
  /// A token's multiply-adds in a layer for each position that it reads.
  static std::int64_t multiply_adds_per_pair(const ModelConfig& config);
  /// Matrices and position biases ~ N(0, std²), gains ~ N(1, std²).
  void initialize(double std, const InitialDraws& draws);
  /// @param shared  the model's position biases; undefined if the layer has its own
  at::Tensor forward(const at::Tensor& x, const at::Tensor& memory, const at::Tensor& distances,
                     const PositionBiases& shared, const DropoutSeeds& seeds,
                     const RoutingContext& context, std::optional<RoutingResult>& routing);
  /// forward() that keeps only its input for the backward pass (layers/recomputed.h).
  /// @param parameters  all tensors that get gradients from the layer, `shared` included
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

}  // namespace penstock
