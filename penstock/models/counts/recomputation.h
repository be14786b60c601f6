// What each layer of a model computes again in the backward pass in place of keeping it. How much
// memory that takes is counted in activations.h; which is chosen for a budget, in train.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "penstock/models/model_config.h"

namespace penstock {

/// Of a layer: nothing; what its experts' activation needs (Experts::recompute); all but its input;
/// or both, so that a layer that is computed again keeps nothing of size A·f either.
enum class Recomputed { nothing, experts, layer, layer_and_experts };
constexpr std::array<std::string_view, 4> words(Recomputed) {
  return {"nothing", "experts", "layer", "layer-and-experts"};
}

constexpr bool recomputes_experts(Recomputed what) {
  return what == Recomputed::experts || what == Recomputed::layer_and_experts;
}
constexpr bool recomputes_layer(Recomputed what) {
  return what == Recomputed::layer || what == Recomputed::layer_and_experts;
}

/// By layer of the whole model, [L]; empty: nothing is.
using Recomputation = std::vector<Recomputed>;

/// That of a layer.
inline Recomputed of_layer(const Recomputation& all, std::int64_t layer) {
  return all.empty() ? Recomputed::nothing : all[static_cast<std::size_t>(layer)];
}

/// The experts of all layers that have any.
inline Recomputation recomputed_experts(const ModelConfig& config) {
  Recomputation out(static_cast<std::size_t>(config.layers), Recomputed::nothing);
  for (std::int64_t i = 0; i < config.layers; ++i)
    if (config.is_moe(i)) out[static_cast<std::size_t>(i)] = Recomputed::experts;
  return out;
}

}  // namespace penstock
