// `penstock info`: what a recipe or a model is, without training it.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

void add_info_command(CLI::App& app);

}  // namespace penstock
