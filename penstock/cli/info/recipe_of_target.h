// The recipe that `penstock info` counts: a recipe whose corpus may be missing, or a model's
// recipe.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/models/files/content_hash.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// A recipe whose vocabulary is known, from the recipe itself or from its corpus.
struct CountableRecipe {
  Recipe recipe;
  bool assumed = false;  ///< whether the vocabulary is unknown; then it is that of bytes
};

/// Reads a recipe and finds its vocabulary.
/// @param hashes  the hashes of the models that recipes start from; several recipes may share them
CountableRecipe countable(const ConfigNode& node, ContentHashes& hashes);

/// The vocabulary of bytes. A recipe that takes its corpus's vocabulary gets it if the corpus is
/// missing.
constexpr std::int64_t kAssumedVocabulary = 256;

/// Prints that the figures do not use the corpus's vocabulary.
void print_assumed_vocabulary();

/// The recipe of an existing model. If `target` is a run, training is as in the run's config.toml.
/// Otherwise training computes one sequence of the model's context length at a time.
Recipe recipe_of_model(const std::string& target);

}  // namespace penstock
