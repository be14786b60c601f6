// `penstock analyse`: the behaviour of a model's routers and experts, and published tables in
// closed form.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock analyse`.
void add_analyse_command(CLI::App& app);

}  // namespace penstock
