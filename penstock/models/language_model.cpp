#include "penstock/models/language_model.h"

#include <torch/types.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/decoder.h"
#include "penstock/models/tensor_slices.h"
#include "penstock/models/transformer_xl.h"

namespace penstock {

LanguageModel::LanguageModel(const ModelConfig& config, ModelPlace place)
    : config_(config.resolved()), place_(std::move(place)), products_(config_) {}

void LanguageModel::tie(const at::Tensor&) { PENSTOCK_ASSERT(false, "nothing is tied"); }

ModelOutput LanguageModel::extend(const at::Tensor&, DecoderCache&, std::span<const std::int64_t>,
                                  const RoutingContext&, const RoutingTap&) {
  PENSTOCK_ASSERT(false, "this model keeps no cache");
  return {};
}

ModelOutput LanguageModel::extend_parts(const at::Tensor&, DecoderCache&,
                                        std::span<const CachePart>, const RoutingContext&,
                                        const RoutingTap&) {
  PENSTOCK_ASSERT(false, "this model keeps no cache");
  return {};
}

void LanguageModel::recompute_experts(bool recompute) {
  for (MoeLayer* const layer : moe_layers_) layer->experts().recompute = recompute;
}

void LanguageModel::take_moe_layers(std::vector<MoeLayer*> layers) {
  moe_layers_ = std::move(layers);
  share_scorers(moe_layers_);
}

void LanguageModel::make_shared_balancers() {
  if (config_.moe_layers() == 0) return;
  balancers_ = make_balancers(resolve(config_.router), router_shape(config_.moe_options(0)));
  for (std::size_t i = 0; i < balancers_.size(); ++i)
    register_module("balancer_" + std::to_string(i), balancers_[i]);
}

void LanguageModel::watch_backward(const LayerWatch& watch, std::int64_t layer,
                                   const at::Tensor& output) {
  if (!watch || !output.requires_grad()) return;
  output.register_hook(
      [watch, layer](const at::Tensor&) { watch(PassDirection::backward, layer); });
}

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, const ModelPlace& place) {
  if (config.transformer_xl()) return std::make_shared<TransformerXl>(config, place);
  return std::make_shared<Decoder>(config, place);
}

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, std::uint64_t seed,
                                          const ModelPlace& place) {
  auto model = make_model(config, place);
  const auto slices = model_slices(model->config(), place.part);
  model->initialize(InitialDraws(seed).within([&](const std::string& name) {
    const auto found = slices.find(name);
    return found == slices.end() ? nullptr : &found->second;
  }));
  return model;
}

}  // namespace penstock
