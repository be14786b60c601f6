// Parameters of a model in closed form, without building it.
#pragma once

#include <cstdint>

#include "penstock/models/model_config.h"

namespace penstock {

/// Parameters by what they are for; frozen ones count, and so do those that are generated.
struct PartCounts {
  std::int64_t backbone = 0;          ///< all but the routers
  std::int64_t router = 0;            ///< what turns tokens into logits
  std::int64_t router_embedding = 0;  ///< trained, from which a hypernetwork makes the router
  std::int64_t hypernetwork = 0;
};

struct ParameterCounts {
  std::int64_t total = 0;
  /// Used by one token: nominal k experts per MoE layer, everything else whole.
  std::int64_t active = 0;
  std::int64_t embedding = 0;  ///< input embedding, and the head where untied
  std::int64_t router = 0;     ///< trained parameters of all scorers
  std::int64_t frozen = 0;     ///< parameters of scorers that are not trained; not in total
  PartCounts by_part;
};

/// Counts trained parameters, and by part all. For the scorers' share those of all layers are built
/// and summed. REQUIRES: config is resolved.
ParameterCounts count_parameters(const ModelConfig& config);

}  // namespace penstock
