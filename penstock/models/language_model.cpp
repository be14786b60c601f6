#include "penstock/models/language_model.h"

#include <torch/types.h>

#include "penstock/models/decoder.h"
#include "penstock/models/transformer_xl.h"

namespace penstock {

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

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config) {
  if (config.transformer_xl()) return std::make_shared<TransformerXl>(config);
  return std::make_shared<Decoder>(config);
}

}  // namespace penstock
