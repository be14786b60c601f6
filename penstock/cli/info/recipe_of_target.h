// The recipe that `penstock info` counts: one that may lack its corpus, or that of a model.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/models/files/content_hash.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// A recipe whose vocabulary is settled: its own, or that of its corpus.
struct CountableRecipe {
  Recipe recipe;
  bool assumed = false;  ///< neither is there: it is that of bytes
};

/// Reads a recipe and settles its vocabulary.
/// @param hashes  of the models that recipes begin with; several recipes may share them
CountableRecipe countable(const ConfigNode& node, ModelHashes& hashes);

/// The vocabulary of a recipe that takes its corpus's, and whose corpus is not there: that of
/// bytes.
constexpr std::int64_t kAssumedVocabulary = 256;

/// Says that the count is not of the corpus's vocabulary.
void print_assumed_vocabulary();

/// A model that exists, trained as its run's config.toml says where `target` is a run, or else with
/// one sequence of its context at a time.
Recipe recipe_of_model(const std::string& target);

}  // namespace penstock
