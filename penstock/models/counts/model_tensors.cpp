#include "penstock/models/counts/model_tensors.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/layers/scorer_tensors.h"
#include "penstock/models/decoder_layer.h"
#include "penstock/models/embedding_and_head.h"
#include "penstock/models/layer_mlp.h"
#include "penstock/models/module_names.h"
#include "penstock/models/transformer_xl_layer.h"

namespace penstock {
namespace {

LayerTensors at_layer(std::vector<ModelTensor>& out, std::int64_t layer) {
  return {out, layer_stem(layer), layer_module(layer) + ".", layer};
}

}  // namespace

std::optional<ScorerTensor> scorer_tensor(const std::string& name) {
  const auto layer = layer_in_files(name);
  const std::string mlp = layer ? layer_stem(*layer) + kMlp + "." : "";
  if (!layer || !name.starts_with(mlp)) return {};
  const auto parameter = scorer_parameter(name.substr(mlp.size()));
  if (!parameter) return {};
  return ScorerTensor{.layer = *layer, .parameter = *parameter};
}

std::shared_ptr<Scorer> scorer_of(const ModelConfig& config, std::int64_t moe_layer) {
  const MoeOptions options = config.moe_options(moe_layer);
  return make_scorer(resolve(options.router), router_shape(options));
}

std::shared_ptr<Selector> selector_of(const ModelConfig& config) {
  const MoeOptions options = config.moe_options(0);
  return make_selector(resolve(options.router), router_shape(options));
}

std::vector<std::shared_ptr<Scorer>> scorers_of(const ModelConfig& config) {
  std::vector<std::shared_ptr<Scorer>> out;
  for (std::int64_t layer = 0; layer < config.moe_layers(); ++layer) {
    out.push_back(scorer_of(config, layer));
    out.back()->share(*out.front());
  }
  return out;
}

std::vector<std::shared_ptr<Balancer>> balancers_of(const ModelConfig& config) {
  return make_balancers(resolve(config.router), router_shape(config.moe_options(0)));
}

std::vector<ModelTensor> backbone_tensors(const ModelConfig& c) {
  PENSTOCK_ASSERT(c.is_resolved());
  std::vector<ModelTensor> out;
  const bool xl = c.transformer_xl();
  const auto describe = xl ? TransformerXlLayer::describe : DecoderLayer::describe;
  (xl ? TransformerXlEmbeddingAndHead::describe : DecoderEmbeddingAndHead::describe)(c, out);
  const MoeOptions moe = c.moe_options(0);  // the tensors of all MoE layers are alike
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    describe(c, c.is_moe(layer) ? &moe : nullptr, at_layer(out, layer));
  return out;
}

std::vector<ModelTensor> model_tensors(const ModelConfig& c) {
  std::vector<ModelTensor> out = backbone_tensors(c);
  const auto scorers = scorers_of(c);
  if (scorers.empty()) return out;
  auto scorer = scorers.begin();
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    if (c.is_moe(layer)) describe_scorer(**scorer++, at_layer(out, layer).below(kMlp));
  const auto balancers = balancers_of(c);
  for (std::size_t i = 0; i < balancers.size(); ++i)
    LayerTensors(out, "penstock.", "")
        .below("balancer_" + std::to_string(i))
        .add_module(*balancers[i], "", TensorRole::balancer, [](const auto& key) { return key; });
  return out;
}

std::map<std::string, std::vector<std::int64_t>> tensor_shapes(const ModelConfig& config) {
  std::map<std::string, std::vector<std::int64_t>> out;
  for (const ModelTensor& tensor : model_tensors(config))
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor.experts); ++e)
      out[tensor.name(e)] = tensor.shape;
  return out;
}

}  // namespace penstock
