#include "penstock/models/transformer_xl_layer.h"

#include <torch/types.h>

#include <utility>

#include "penstock/models/layer_mlp.h"
#include "penstock/models/recomputed_layer.h"

namespace penstock {
namespace {

/// The dropout sites of one layer, and their number.
enum LayerSite : std::int64_t { kAttention, kInner, kFeedForward, kLayerSites };

std::int64_t layer_site(std::int64_t layer, LayerSite site) {
  return DropoutSeeds::kFirstLayer + layer * kLayerSites + site;
}

}  // namespace

RelativeAttentionConfig relative_attention_config(const ModelConfig& config) {
  return {.d_model = config.d_model, .heads = config.heads, .head_dim = config.head_dim};
}

TransformerXlLayer::TransformerXlLayer(const ModelConfig& config, const ModelPlace& place,
                                       std::int64_t index, std::int64_t moe_index,
                                       const std::vector<std::shared_ptr<Balancer>>& balancers)
    : index_(index) {
  const auto norm = [&](const char* name) {
    return register_module(name, std::make_shared<LayerNorm>(config.d_model, config.norm_eps));
  };
  const RelativeAttentionConfig attention = relative_attention_config(config);
  self_attn_ = register_module("self_attn", std::make_shared<RelativeAttention>(attention));
  if (config.xl.biases_per_layer) biases_ = PositionBiases::registered(*this, attention);
  attention_norm_ = norm("attention_norm");
  if (moe_index >= 0) {
    MoeOptions options = config.moe_options(moe_index);
    options.expert_group = place.expert;
    options.overlap = place.overlap;
    moe_ = register_module(kMlp, std::make_shared<MoeLayer>(options, balancers));
  } else {
    mlp_ = register_module(
        kMlp, std::make_shared<FeedForward>(
                  config.d_model, config.dense_width(), config.ffn_form(),
                  BlockDropout{.blocks = config.xl.ffn_blocks, .p = config.xl.ffn_block_dropout}));
  }
  ffn_norm_ = norm("ffn_norm");
}

void TransformerXlLayer::describe(const ModelConfig& config, const MoeOptions* moe,
                                  const LayerTensors& at) {
  const RelativeAttentionConfig attention = relative_attention_config(config);
  if (config.xl.biases_per_layer) PositionBiases::describe(attention, at);
  for (const char* const norm : {"attention_norm", "ffn_norm"})
    LayerNorm::describe(config.d_model, at.below(norm));
  RelativeAttention::describe(attention, at.below("self_attn"));
  describe_mlp(config, moe, at);
}

std::int64_t TransformerXlLayer::multiply_adds_per_pair(const ModelConfig& config) {
  return RelativeAttention::multiply_adds_per_pair(relative_attention_config(config));
}

void TransformerXlLayer::initialize(double std, const InitialDraws& draws) {
  self_attn_->initialize(std, draws.of("self_attn"));
  if (biases_.content.defined()) biases_.initialize(std, draws);
  attention_norm_->initialize(std, draws.of("attention_norm"));
  if (moe_)
    moe_->initialize(draws.of(kMlp));
  else
    mlp_->initialize(std, std, draws.of(kMlp));
  ffn_norm_->initialize(std, draws.of("ffn_norm"));
}

at::Tensor TransformerXlLayer::forward(const at::Tensor& x, const at::Tensor& memory,
                                       const at::Tensor& distances, const PositionBiases& shared,
                                       const DropoutSeeds& seeds, const RoutingContext& context,
                                       std::optional<RoutingResult>& routing) {
  const PositionBiases& biases = biases_.content.defined() ? biases_ : shared;
  const at::Tensor attended = self_attn_->forward(x, memory, distances, biases);
  const at::Tensor normed =
      attention_norm_->forward(x + seeds.apply(attended, layer_site(index_, kAttention)));
  const auto inner_seed = seeds.seed(layer_site(index_, kInner));
  at::Tensor y;
  if (moe_) {
    MoeOutput out = moe_->forward(normed, context, inner_seed);
    routing = std::move(out.routing);
    y = out.y;
  } else {
    y = mlp_->forward(normed, inner_seed);
  }
  return ffn_norm_->forward(normed + seeds.apply(y, layer_site(index_, kFeedForward)));
}

at::Tensor TransformerXlLayer::forward_again(
    const at::Tensor& x, const at::Tensor& memory, const at::Tensor& distances,
    const PositionBiases& shared, const DropoutSeeds& seeds, const RoutingContext& context,
    const std::vector<at::Tensor>& parameters, std::optional<RoutingResult>& routing) {
  const auto layer = [this, memory, distances, shared, seeds](
                         const std::vector<at::Tensor>& inputs, const RoutingContext& own,
                         std::optional<RoutingResult>& routed) {
    return std::vector<at::Tensor>{
        forward(inputs[0], memory, distances, shared, seeds, own, routed)};
  };
  return recomputed_layer(layer, {x}, context, parameters, routing)[0];
}

}  // namespace penstock
