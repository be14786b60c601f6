// `penstock train`: one run from a recipe.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// Adds `penstock train`. Sets `exit_code` to 130 if the run was interrupted (its state is saved).
void add_train_command(CLI::App& app, int& exit_code);

}  // namespace penstock
