// What the names of a model's parameters say of their place in it. Names in files are those of
// models/counts/tensor_shapes.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// The module of a layer, counted from 0: "layer_3".
std::string layer_module(std::int64_t layer);

/// The layer that alone uses the parameter of that full name, or -1: it lies outside of the layers,
/// or is a router's, and the first layer may hold for all what their routers share.
std::int64_t only_layer_of(std::string_view parameter);

}  // namespace penstock
