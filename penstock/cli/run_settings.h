// The evaluation settings of a run's recipe, so that a command on its checkpoint repeats the run's
// figures.
#pragma once

#include <optional>
#include <string>

#include "penstock/train/recipe.h"

namespace penstock {

/// Reads the config.toml of the run that a checkpoint (RUN/checkpoints/step-N) belongs to. Returns
/// nothing for a model outside a run. Throws Error for a damaged config.toml.
std::optional<Recipe> run_settings(const std::string& model_directory);

}  // namespace penstock
