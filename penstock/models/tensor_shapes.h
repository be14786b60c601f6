// The tensors that a model's files hold, by its config alone: names and shapes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/models/model_config.h"

namespace penstock {

/// Shape of every tensor of file_tensors(*make_model(config)), under the same names. The decoder is
/// not built for it, only its scorers and balancers; Transformer-XL is, whose sizes are small.
std::map<std::string, std::vector<std::int64_t>> tensor_shapes(const ModelConfig& config);

/// The scorer of a model's MoE layer, its parameters not drawn. REQUIRES: config is resolved.
std::shared_ptr<Scorer> scorer_of(const ModelConfig& config, std::int64_t moe_layer);

/// Those of all MoE layers, sharing what the model's share. REQUIRES: config is resolved.
std::vector<std::shared_ptr<Scorer>> scorers_of(const ModelConfig& config);

/// The selector of its MoE layers. REQUIRES: config is resolved.
std::shared_ptr<Selector> selector_of(const ModelConfig& config);

}  // namespace penstock
