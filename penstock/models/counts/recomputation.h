// The choice, for each layer, of the results that the backward pass computes again instead of
// keeping them. activations.h counts the memory of a choice; train makes the choice for a memory
// budget.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "penstock/models/model_config.h"

namespace penstock {

/// What a layer computes again: nothing; the input of its experts' activation (Experts::recompute);
/// everything but the layer's input; or both. With both, a layer that is computed again keeps
/// nothing of size A·f either (A assignments).
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

/// The choice for each layer of the whole model, [L]; empty: `nothing` for every layer.
using Recomputation = std::vector<Recomputed>;

/// The choice for one layer.
inline Recomputed of_layer(const Recomputation& all, std::int64_t layer) {
  return all.empty() ? Recomputed::nothing : all[static_cast<std::size_t>(layer)];
}

/// The choice that recomputes the experts of every MoE layer.
inline Recomputation recomputed_experts(const ModelConfig& config) {
  Recomputation out(static_cast<std::size_t>(config.layers), Recomputed::nothing);
  for (std::int64_t i = 0; i < config.layers; ++i)
    if (config.is_moe(i)) out[static_cast<std::size_t>(i)] = Recomputed::experts;
  return out;
}

}  // namespace penstock
