// Opens a run's checkpoint with the corpus and settings of its recipe. Every measurement begins
// with this.
#pragma once

#include <memory>
#include <string>

#include "penstock/base/config_node.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/models/language_model.h"
#include "penstock/study/run_checkpoint.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/recipe.h"

namespace penstock::study {

struct OpenedCheckpoint {
  Recipe recipe;
  CheckpointInfo info;
  Corpus corpus;
  Split split;  ///< the measured split: test, or validation if there is no test split

  std::string split_text() const { return std::string(split_name(split)); }
  /// Reads the weights to the recipe's device.
  std::shared_ptr<LanguageModel> model() const;
};

/// Sets the number of threads to the recipe's. Throws Error if no such checkpoint is complete, or
/// if the corpus cannot be read.
OpenedCheckpoint open_checkpoint(const ConfigNode& recipe, const std::string& run_directory,
                                 RunCheckpoint which);

}  // namespace penstock::study
