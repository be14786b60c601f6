// The names that files use for the scorer tensors of an MoE layer. Only a built scorer knows its
// tensors.
#pragma once

#include <optional>
#include <string>

#include "penstock/experts/layer_tensors.h"
#include "penstock/routers/parts.h"

namespace penstock {

/// The name in files of a scorer's parameter or buffer, without the layer's "model.layers.3.mlp.".
/// A plain matrix has the name "gate.weight", as in other programs' models.
std::string scorer_tensor_name(const std::string& key);

/// The scorer's parameter or buffer for a name in files without the layer's prefix; nullopt if the
/// name is not a scorer's.
std::optional<std::string> scorer_parameter(const std::string& name);

/// Adds the tensors of a scorer.
/// @param at  the tensors of its MoE layer
void describe_scorer(const Scorer& scorer, const LayerTensors& at);

}  // namespace penstock
