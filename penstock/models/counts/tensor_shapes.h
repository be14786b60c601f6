// The one description of a model's tensors, by its config alone: what each is called in files, its
// shape, what it is for, and where a model holds it. Counting, files and FLOPs ask it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/models/model_config.h"

namespace penstock {

/// What a tensor is for. `rest` counts as parameters and is in no product.
enum class TensorRole {
  embedding,  ///< the head's matrix too
  query,
  key_value,
  distance,  ///< projects the sinusoids of distances
  output,
  dense,  ///< feed-forward of a layer without experts
  expert,
  shared,  ///< the shared expert and its gate
  rest,
  router,
  balancer
};

/// How the ranks that share a layer's products divide a tensor: each has heads or neurons of its
/// own
/// (`rows`: those that it computes; `columns`: those that it sums over), or all of it.
enum class TensorSplit { none, rows, columns };

/// What a backward pass leaves such a rank of the gradient of a tensor that it has all of: `whole`,
/// as the others; or a share, of its heads (norms of queries and keys) or of the rows that it holds
/// between products (RankRows), which are all where rows are not divided.
enum class GradientShare { whole, of_heads, of_rows };

/// A tensor of the model's files, or one of each expert.
struct ModelTensor {
  std::string stem, rest;  ///< of the name: "model.layers.3.mlp.experts." and ".up_proj.weight"
  std::vector<std::int64_t> shape;  ///< of an expert's, where there is one of each
  TensorRole role = TensorRole::rest;
  TensorSplit split = TensorSplit::none;
  GradientShare gradient = GradientShare::whole;
  std::int64_t layer = -1;     ///< that it belongs to; -1: none
  std::int64_t experts = 0;    ///< how many there are of it; 0: one, which is no expert's
  std::string module;          ///< parameter or buffer of the model: "layer_3.mlp.experts.gate_up"
  std::int64_t first_row = 0;  ///< where it begins in that, or in an expert's part of it
  bool trained = true;         ///< else a frozen parameter, or a buffer

  std::string name(std::int64_t expert = 0) const {
    return experts == 0 ? stem + rest : stem + std::to_string(expert) + rest;
  }
  /// Numbers in one.
  std::int64_t size() const;
};

/// All tensors but those of scorers and balancers. Builds nothing. REQUIRES: config is resolved.
std::vector<ModelTensor> backbone_tensors(const ModelConfig& config);

/// All tensors; those of scorers and balancers are what the parts register, which are built for it
/// without drawing. REQUIRES: config is resolved.
std::vector<ModelTensor> model_tensors(const ModelConfig& config);

/// Shape of every tensor of file_tensors(*make_model(config)), under the same names.
/// REQUIRES: config is resolved.
std::map<std::string, std::vector<std::int64_t>> tensor_shapes(const ModelConfig& config);

/// The name in files of a scorer's parameter or buffer, after "model.layers.3.mlp.".
std::string scorer_tensor_name(const std::string& key);

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
