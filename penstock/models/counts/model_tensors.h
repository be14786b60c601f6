// The single description of a model's tensors, from its config alone. It collects the descriptions
// of the layers, embeddings and head (experts/layer_tensors.h). Counting, files and FLOPs use it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/experts/layer_tensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// All tensors except those of scorers and balancers. This builds nothing.
/// REQUIRES: config is resolved.
std::vector<ModelTensor> backbone_tensors(const ModelConfig& config);

/// All tensors. For the tensors of scorers and balancers, this builds these parts and lists what
/// they register; it draws no weights.
/// REQUIRES: config is resolved.
std::vector<ModelTensor> model_tensors(const ModelConfig& config);

/// Shape of every tensor of file_tensors(*make_model(config)), under the same names.
/// REQUIRES: config is resolved.
std::map<std::string, std::vector<std::int64_t>> tensor_shapes(const ModelConfig& config);

/// A scorer's parameter or buffer: the layer of the scorer, and the name within the scorer.
struct ScorerTensor {
  std::int64_t layer;
  std::string parameter;
};
/// The scorer's tensor that has this name in files; nullopt: it is not a scorer's tensor.
std::optional<ScorerTensor> scorer_tensor(const std::string& name);

/// Builds the scorer of a model's MoE layer without drawing its parameters.
/// REQUIRES: config is resolved.
std::shared_ptr<Scorer> scorer_of(const ModelConfig& config, std::int64_t moe_layer);

/// Builds the scorers of all MoE layers. They share the parameters that the model's scorers share.
/// REQUIRES: config is resolved.
std::vector<std::shared_ptr<Scorer>> scorers_of(const ModelConfig& config);

/// Builds the balancers that the model's MoE layers share, in the config's order. They are not
/// started (Balancer::start).
/// REQUIRES: config is resolved.
std::vector<std::shared_ptr<Balancer>> balancers_of(const ModelConfig& config);

/// Builds the selector of the model's MoE layers.
/// REQUIRES: config is resolved.
std::shared_ptr<Selector> selector_of(const ModelConfig& config);

}  // namespace penstock
