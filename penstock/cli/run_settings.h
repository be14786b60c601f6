// What a run's recipe says of evaluation, so that a command on its checkpoint repeats its figures.
#pragma once

#include <optional>
#include <string>

#include "penstock/train/recipe.h"

namespace penstock {

/// The config.toml of the run that a checkpoint (RUN/checkpoints/step-N) belongs to; nothing for a
/// model that lies elsewhere. Throws Error for a damaged config.toml.
std::optional<Recipe> run_settings(const std::string& model_directory);

}  // namespace penstock
