// `penstock info`: the sizes and costs of a recipe or a model, without training it.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock info`: sizes, FLOPs and memory, counted.
void add_info_command(CLI::App& app);

}  // namespace penstock
