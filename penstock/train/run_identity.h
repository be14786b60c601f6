// The identity of a run: the recipe in its config.toml. Finds the keys in which another recipe
// differs from it.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// The recipe with every key, including the options of its router's parts, as config.toml holds it.
ConfigNode written_out(const Recipe& recipe);

/// The first key whose values differ, as "train.lr: 0.0005 -> 0.5", and the number of further keys
/// that differ; "" for recipes of the same run. An option left to its default equals the same value
/// given by name. Keys that may change between a run and its continuation do not count: those that
/// result_settings() resets, such as name, description and [run], and the paths of the corpora
/// (their contents are compared by hash).
std::string difference(const Recipe& before, const Recipe& now);

}  // namespace penstock
