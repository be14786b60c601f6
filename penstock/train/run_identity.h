// Which run a recipe is of: what config.toml says of it, and in which keys another recipe differs
// from it.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// The recipe with every key, the options of its router's parts included: what config.toml holds.
ConfigNode written_out(const Recipe& recipe);

/// The first key whose value differs, "train.lr: 0.0005 -> 0.5", and how many more do; "" for
/// recipes of the same run. Options left to their defaults are equal to those named. What may
/// change between a run and its continuation does not count: name, description, [run], and the
/// place of the corpus (its content is compared by hash).
std::string difference(const Recipe& before, const Recipe& now);

}  // namespace penstock
