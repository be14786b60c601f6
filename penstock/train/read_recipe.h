// Reads a recipe: fills in the keys that its file leaves open, and checks them against each other
// and against the model that training starts from. recipe.h declares the keys.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/models/files/content_hash.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// Whether a recipe's value of this key may differ from that of the model of train.init_from. It
/// may for coefficients of routing parts' losses, such as "model.router.z-loss.coefficient".
bool may_differ_from_initial_model(const std::string& key);

/// Reads, completes and checks a recipe. Checks its [model] against the model of train.init_from,
/// of which it reads the config alone. Throws Error naming file, line and key.
Recipe read_recipe(const ConfigNode& node);

/// The same for the recipe in a run's config.toml, which has every key of the model. It does not
/// open the model of train.init_from, which may be gone.
Recipe read_recorded_recipe(const ConfigNode& node);

/// The recipe of the run whose config.toml is `path`. Throws Error if the file is damaged.
Recipe recorded_recipe(const std::string& path);

/// Fills train.init_hash from the content of train.init_from, or checks it if it is given, because
/// the initial model is part of a run's identity. Throws Error if the model is a checkpoint with a
/// damaged file. Reads the whole model twice.
Recipe with_initial_hash(Recipe recipe);
/// The same for one of several recipes, which may start from the same model. `hashes` reads each
/// model once. Files are not compared with a checkpoint's manifest.
Recipe with_initial_hash(Recipe recipe, ContentHashes& hashes);

}  // namespace penstock
