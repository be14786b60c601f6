// One layer of the decoder: attention and a feed-forward or experts, each after its norm. The
// embedding and the head are not here.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/attention.h"
#include "penstock/layers/feed_forward.h"
#include "penstock/layers/moe.h"
#include "penstock/layers/norm.h"
#include "penstock/models/model_config.h"
#include "penstock/models/model_place.h"

namespace penstock {

/// A layer's attention for normed rows [B, T, d], over the rows themselves or with a cache. The
/// backward pass may call a copy of it after the pass's input is freed.
using Attend = std::function<at::Tensor(std::int64_t layer, Attention&, const at::Tensor& normed)>;

/// h += Attention(Norm(h));  h += FFN or MoE(Norm(h)).
class DecoderLayer : public torch::nn::Module {
 public:
  /// `moe_index` counts MoE layers; -1 for a dense layer.
  DecoderLayer(const ModelConfig& config, const ModelPlace& place, std::int64_t index,
               std::int64_t moe_index, const std::vector<std::shared_ptr<Balancer>>& balancers);
  /// Adds the whole tensors of a layer, without division over ranks. The scorer's tensors are not
  /// included.
  /// @param moe  null: a dense layer
  static void describe(const ModelConfig& config, const MoeOptions* moe, const LayerTensors& at);
  /// A token's multiply-adds in a layer for each position that it reads.
  static std::int64_t multiply_adds_per_pair(const ModelConfig& config);
  void initialize(const ModelConfig& config, const InitialDraws& draws);
  Residual forward(Residual x, const Attend& attend, const RoutingContext& context,
                   std::optional<RoutingResult>& routing);
  /// forward() that keeps only its input for the backward pass (layers/recomputed.h).
  /// @param parameters  all tensors that get gradients from the layer
  Residual forward_again(Residual x, const Attend& attend, const RoutingContext& context,
                         const std::vector<at::Tensor>& parameters,
                         std::optional<RoutingResult>& routing);
  /// Null for a dense layer.
  MoeLayer* moe() { return moe_.get(); }

 private:
  std::int64_t index_;
  std::shared_ptr<RmsNorm> input_layernorm_, post_attention_layernorm_;
  std::shared_ptr<Attention> self_attn_;
  std::shared_ptr<FeedForward> mlp_;
  std::shared_ptr<MoeLayer> moe_;
};

}  // namespace penstock
