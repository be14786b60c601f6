// The decoder: Llama- and Qwen2-like models, dense or MoE per layer, by config. The only other
// model is Transformer-XL. Generation and its cache are not here.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/layers/attention.h"
#include "penstock/layers/feed_forward.h"
#include "penstock/layers/moe.h"
#include "penstock/layers/norm.h"
#include "penstock/layers/routing_tap.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Sees the residual stream after each layer, [B, T, d].
using HiddenTap = std::function<void(std::int64_t layer, const at::Tensor& hidden)>;

struct DecoderInput {
  at::Tensor tokens;                 ///< [B, T] i64
  std::optional<at::Tensor> starts;  ///< [B, T] i64, first position each row may read
};

struct DecoderOutput {
  at::Tensor hidden;          ///< [B·T, d], normed; what the head multiplies
  at::Tensor auxiliary_loss;  ///< scalar, summed over layers; undefined when there is none
};

/// h += Attention(Norm(h));  h += FFN or MoE(Norm(h)).
class DecoderLayer : public torch::nn::Module {
 public:
  /// `moe_index` counts MoE layers; -1 for a dense layer.
  DecoderLayer(const ModelConfig& config, std::int64_t moe_index,
               const std::vector<std::shared_ptr<Balancer>>& balancers);
  Residual forward(Residual x, const at::Tensor& rotation, const std::optional<at::Tensor>& start,
                   const RoutingContext& context, std::optional<RoutingResult>& routing);
  /// Null for a dense layer.
  MoeLayer* moe() { return moe_.get(); }

 private:
  std::shared_ptr<RmsNorm> input_layernorm_, post_attention_layernorm_;
  std::shared_ptr<Attention> self_attn_;
  std::shared_ptr<FeedForward> mlp_;
  std::shared_ptr<MoeLayer> moe_;
};

class Decoder : public torch::nn::Module {
 public:
  /// Builds and initialises; draws come from libtorch's default CPU generator.
  explicit Decoder(const ModelConfig& config);

  /// `routing_tap` and `hidden_tap` may be null.
  DecoderOutput forward(const DecoderInput& input, const RoutingContext& context,
                        const RoutingTap& routing_tap = {}, const HiddenTap& hidden_tap = {});

  /// The output head's matrix [V, d]: the embeddings when tied. Losses take it as it is
  /// (ops::linear_cross_entropy), which spares the logits.
  const at::Tensor& head() const { return config_.tie_embeddings ? embed_tokens_ : lm_head_; }
  /// hidden · headᵀ, [.., V].  @param hidden [.., d], rows of DecoderOutput::hidden
  at::Tensor logits(const at::Tensor& hidden) const;

  const ModelConfig& config() const { return config_; }
  DecoderLayer& layer(std::int64_t index) { return *layers_[index]; }
  /// Balancers shared by the layers; empty for a dense model.
  const std::vector<std::shared_ptr<Balancer>>& balancers() const { return balancers_; }

 private:
  ModelConfig config_;
  at::Tensor embed_tokens_, lm_head_;  // [V, d]; the latter undefined when tied
  std::vector<std::shared_ptr<DecoderLayer>> layers_;
  std::vector<std::shared_ptr<Balancer>> balancers_;
  std::shared_ptr<RmsNorm> norm_;
};

}  // namespace penstock
