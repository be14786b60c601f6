// Finds the layer of a model's parameter, or of a tensor in files, by its name. The full names in
// files are in models/counts/model_tensors.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// The name of a layer's module: "layer_3". Layers count from 0.
std::string layer_module(std::int64_t layer);

/// The prefix of the names of a layer's tensors in files: "model.layers.3.".
std::string layer_stem(std::int64_t layer);

/// The layer of the tensor with that name in files; nullopt: the tensor belongs to no layer.
std::optional<std::int64_t> layer_in_files(std::string_view name);

/// The only layer that uses the parameter with that full name. -1 for a parameter outside of the
/// layers, and for a router's parameter: routers of all layers may share parameters, which the
/// first layer then holds.
std::int64_t only_layer_of(std::string_view parameter);

}  // namespace penstock
