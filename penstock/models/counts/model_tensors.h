// The one description of a model's tensors, by its config alone. It puts together what the layers
// and ends say of theirs (experts/layer_tensors.h). Counting, files and FLOPs ask it.
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

/// All tensors but those of scorers and balancers. Builds nothing. REQUIRES: config is resolved.
std::vector<ModelTensor> backbone_tensors(const ModelConfig& config);

/// All tensors; those of scorers and balancers are what the parts register, which are built for it
/// without drawing. REQUIRES: config is resolved.
std::vector<ModelTensor> model_tensors(const ModelConfig& config);

/// Shape of every tensor of file_tensors(*make_model(config)), under the same names.
/// REQUIRES: config is resolved.
std::map<std::string, std::vector<std::int64_t>> tensor_shapes(const ModelConfig& config);

/// A scorer's parameter or buffer: of which layer, and its name in the scorer.
struct ScorerTensor {
  std::int64_t layer;
  std::string parameter;
};
/// What a tensor of that name in files is; nullopt: no scorer's.
std::optional<ScorerTensor> scorer_tensor(const std::string& name);

/// The scorer of a model's MoE layer, its parameters not drawn. REQUIRES: config is resolved.
std::shared_ptr<Scorer> scorer_of(const ModelConfig& config, std::int64_t moe_layer);

/// Those of all MoE layers, sharing what the model's share. REQUIRES: config is resolved.
std::vector<std::shared_ptr<Scorer>> scorers_of(const ModelConfig& config);

/// The selector of its MoE layers. REQUIRES: config is resolved.
std::shared_ptr<Selector> selector_of(const ModelConfig& config);

}  // namespace penstock
