// The names in files of an MoE layer's scorer tensors. Only a built scorer knows its tensors.
#pragma once

#include <optional>
#include <string>

#include "penstock/experts/layer_tensors.h"
#include "penstock/routers/router.h"

namespace penstock {

/// The name in files of a scorer's parameter or buffer, after its layer's "model.layers.3.mlp.":
/// "gate.weight", as other programs' models have it, of a plain matrix.
std::string scorer_tensor_name(const std::string& key);

/// The scorer's parameter or buffer for a name after the layer's; nullopt if it is no scorer's.
std::optional<std::string> scorer_parameter(const std::string& name);

/// Adds the tensors of a scorer.
/// @param at  of its MoE layer
void describe_scorer(const Scorer& scorer, const LayerTensors& at);

}  // namespace penstock
