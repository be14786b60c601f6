#include "penstock/models/decoder_layer.h"

#include <torch/types.h>

#include <utility>

#include "penstock/models/layer_mlp.h"
#include "penstock/models/recomputed_layer.h"

namespace penstock {
namespace {

AttentionConfig attention_config(const ModelConfig& config) {
  return {.d_model = config.d_model,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .qkv_bias = config.qkv_bias,
          .rope_adjacent = config.rope_adjacent,
          .q_norm_width = config.norm_width(config.heads),
          .k_norm_width = config.norm_width(config.kv_heads),
          .clip_qkv = config.clip_qkv,
          .norm_eps = config.norm_eps};
}

}  // namespace

DecoderLayer::DecoderLayer(const ModelConfig& config, const ModelPlace& place, std::int64_t index,
                           std::int64_t moe_index,
                           const std::vector<std::shared_ptr<Balancer>>& balancers)
    : index_(index) {
  input_layernorm_ = register_module("input_layernorm",
                                     std::make_shared<RmsNorm>(config.d_model, config.norm_eps));
  self_attn_ = register_module("self_attn",
                               std::make_shared<Attention>(attention_config(config), place.rows));
  post_attention_layernorm_ = register_module(
      "post_attention_layernorm", std::make_shared<RmsNorm>(config.d_model, config.norm_eps));
  if (moe_index < 0) {
    mlp_ = register_module(
        kMlp, std::make_shared<FeedForward>(config.d_model, config.dense_width(), config.ffn_form(),
                                            BlockDropout{}, place.rows));
    return;
  }
  MoeOptions options = config.moe_options(moe_index);
  options.tensor_group = place.rows.ranks();
  options.divided_rows = place.rows.divided();
  options.expert_group = place.expert;
  options.overlap = place.overlap;
  options.whole_experts = place.part.whole_experts;
  moe_ = register_module(kMlp, std::make_shared<MoeLayer>(options, balancers));
}

void DecoderLayer::describe(const ModelConfig& config, const MoeOptions* moe,
                            const LayerTensors& at) {
  for (const char* const norm : {"input_layernorm", "post_attention_layernorm"})
    RmsNorm::describe(config.d_model, at.below(norm));
  Attention::describe(attention_config(config), at.below("self_attn"));
  describe_mlp(config, moe, at);
}

std::int64_t DecoderLayer::multiply_adds_per_pair(const ModelConfig& config) {
  return Attention::multiply_adds_per_pair(attention_config(config));
}

void DecoderLayer::initialize(const ModelConfig& config, const InitialDraws& draws) {
  const double std = config.weight_std(config.d_model);
  self_attn_->initialize(std, config.output_std(config.heads * config.head_dim),
                         draws.of("self_attn"));
  if (moe_)
    moe_->initialize(draws.of(kMlp));
  else
    mlp_->initialize(std, config.output_std(config.dense_width()), draws.of(kMlp));
}

Residual DecoderLayer::forward(Residual x, const Attend& attend, const RoutingContext& context,
                               std::optional<RoutingResult>& routing) {
  x.delta = attend(index_, *self_attn_, input_layernorm_->forward(x));
  const at::Tensor normed = post_attention_layernorm_->forward(x);
  if (moe_) {
    MoeOutput out = moe_->forward(normed, context);
    routing = std::move(out.routing);
    x.delta = out.y;
  } else {
    x.delta = mlp_->forward(normed);
  }
  return x;
}

Residual DecoderLayer::forward_again(Residual x, const Attend& attend,
                                     const RoutingContext& context,
                                     const std::vector<at::Tensor>& parameters,
                                     std::optional<RoutingResult>& routing) {
  const auto layer = [this, attend](const std::vector<at::Tensor>& inputs,
                                    const RoutingContext& own,
                                    std::optional<RoutingResult>& routed) {
    const bool pending = inputs.size() > 1;
    Residual out = forward({inputs[0], pending ? inputs[1] : at::Tensor()}, attend, own, routed);
    return std::vector<at::Tensor>{out.stream, out.delta};
  };
  std::vector<at::Tensor> inputs{x.stream};
  if (x.delta.defined()) inputs.push_back(x.delta);
  const auto out = recomputed_layer(layer, inputs, context, parameters, routing);
  return {out[0], out[1]};
}

}  // namespace penstock
