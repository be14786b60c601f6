// What the names of a model's parameters, and of tensors in files, say of the layer that they
// belong to. The whole names in files are those of models/counts/model_tensors.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// The module of a layer, counted from 0: "layer_3".
std::string layer_module(std::int64_t layer);

/// What the names of a layer's tensors in files begin with: "model.layers.3.".
std::string layer_stem(std::int64_t layer);

/// The layer of a tensor of that name in files; nullopt: it is no layer's.
std::optional<std::int64_t> layer_in_files(std::string_view name);

/// The layer that alone uses the parameter of that full name, or -1: it lies outside of the layers,
/// or is a router's, and the first layer may hold for all what their routers share.
std::int64_t only_layer_of(std::string_view parameter);

}  // namespace penstock
