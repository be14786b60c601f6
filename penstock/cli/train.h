// `penstock train`: one run from a recipe.
#pragma once

#include <CLI/App.hpp>

namespace penstock {

/// `exit_code` is set to 130 when the run was interrupted (its state saved).
void add_train_command(CLI::App& app, int& exit_code);

}  // namespace penstock
