// `penstock analyse`: what a model's routers and experts do, and published tables in closed form.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock analyse`.
void add_analyse_command(CLI::App& app);

}  // namespace penstock
