#include "penstock/models/language_model.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {

LanguageModel::LanguageModel(const ModelConfig& config, ModelPlace place)
    : config_(config.resolved()),
      place_(std::move(place)),
      traits_(config_.traits()),
      multiply_adds_(config_) {}

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

void LanguageModel::recompute(Recomputation what) {
  PENSTOCK_ASSERT(what.empty() || std::ssize(what) == config_.layers);
  recomputed_ = std::move(what);
  auto held = moe_layers_.begin();
  for (std::int64_t i = 0; i < config_.layers; ++i)
    if (config_.is_moe(i) && place_.part.holds(i))
      (*held++)->experts().recompute = recomputes_experts(of_layer(recomputed_, i));
}

std::vector<at::Tensor> LanguageModel::parameters_read_by(const torch::nn::Module& layer) const {
  std::vector<at::Tensor> out = layer.parameters();
  if (!moe_layers_.empty() && traits_.shared_by_layers)
    for (const at::Tensor& parameter : moe_layers_.front()->router().parameters())
      out.push_back(parameter);
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : out)
    if (parameter.requires_grad() && std::ranges::none_of(trained, [&](const at::Tensor& other) {
          return other.is_same(parameter);
        }))
      trained.push_back(parameter);
  return trained;
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

}  // namespace penstock
