// Reading a recipe: what its file leaves open is filled in, and its fields are checked against each
// other and against the model that it starts from. What a recipe has is recipe.h's.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/models/files/content_hash.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// Whether a recipe may say of that key another thing than the model of train.init_from does: it is
/// a coefficient of some routing part's loss, "model.router.z-loss.coefficient".
bool may_differ_from_initial_model(const std::string& key);

/// Reads, completes and checks a recipe, and what is said of the model that it starts from; throws
/// Error naming file, line and key. Of train.init_from it reads the config alone.
Recipe read_recipe(const ConfigNode& node);

/// The same of what a run wrote down, which says all of its model: the model that it began with is
/// not opened, and need not be there any more.
Recipe read_recorded_recipe(const ConfigNode& node);

/// The recipe of the run whose config.toml is `path`. Throws Error where that is damaged.
Recipe recorded_recipe(const std::string& path);

/// Fills train.init_hash from the content of train.init_from, or checks it where it is given: what
/// a run trains from is part of what it is. Reads the whole model.
Recipe with_initial_hash(Recipe recipe);
/// The same of one of several recipes, which may begin with the same model.
Recipe with_initial_hash(Recipe recipe, ModelHashes& hashes);

}  // namespace penstock
