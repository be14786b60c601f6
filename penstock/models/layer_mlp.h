// The part of a layer after its attention: experts, or a feed-forward. This file has the part's
// name and describes its tensors; the layers build and call it.
#pragma once

#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/moe.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The part's name in files, in the layer's module and among the layer's initial draws.
inline constexpr const char* kMlp = "mlp";

/// Adds the whole tensors of a layer's experts or feed-forward, without division over ranks. The
/// scorer's tensors are not included.
/// @param moe  null: a layer without experts
/// @param at   the layer's place
void describe_mlp(const ModelConfig& config, const MoeOptions* moe, const LayerTensors& at);

}  // namespace penstock
