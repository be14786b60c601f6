// Parameters of a model in closed form, without building it.
#pragma once

#include <cstdint>

#include "penstock/models/model_config.h"

namespace penstock {

/// Parameters by purpose. Frozen and generated parameters count too.
struct PartCounts {
  std::int64_t backbone = 0;          ///< all except the routers
  std::int64_t router = 0;            ///< parameters that turn tokens into logits
  std::int64_t router_embedding = 0;  ///< trained; a hypernetwork makes the router from them
  std::int64_t hypernetwork = 0;
};

struct ParameterCounts {
  std::int64_t total = 0;
  /// Parameters that one token uses: the nominal k experts of each MoE layer, and everything else.
  std::int64_t active = 0;
  std::int64_t embedding = 0;  ///< input embedding, and the head unless it is tied
  std::int64_t router = 0;     ///< trained parameters of all scorers
  std::int64_t frozen = 0;     ///< parameters of scorers that are not trained; not part of `total`
  PartCounts by_part;
};

/// Counts the trained parameters; by_part counts all parameters. For the scorers' numbers, this
/// builds the scorers of all layers.
/// REQUIRES: config is resolved.
ParameterCounts count_parameters(const ModelConfig& config);

}  // namespace penstock
