// What every kind of layer has behind its attention: experts, or a feed-forward where it has none.
// What it is called, and which tensors it has; not how a layer builds and calls it.
#pragma once

#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/moe.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Its name in files, in the layer's module and among the layer's initial draws.
inline constexpr const char* kMlp = "mlp";

/// Adds the tensors of a layer's experts or feed-forward, as if one rank had them all, but for
/// those of the scorer.
/// @param moe  null: a layer without experts
/// @param at   the layer's place
void describe_mlp(const ModelConfig& config, const MoeOptions* moe, const LayerTensors& at);

}  // namespace penstock
