// The text of a run: the corpora for training and the corpus for measuring.
#pragma once

#include <string>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/data/corpus/mixture.h"
#include "penstock/train/recipe.h"

namespace penstock {

struct RunText {
  /// One corpus for training and for measuring.
  RunText(Corpus corpus);  // NOLINT(google-explicit-constructor): the usual case
  RunText(Corpus measured, std::vector<WeightedCorpus> training);

  Corpus measured;  ///< validation, tests, and the tokenizer that the run keeps
  std::vector<WeightedCorpus> training;

  /// Equal texts with equal weights have equal hashes. For a single corpus this is the corpus's
  /// hash.
  std::string content_hash() const;
};

/// Opens the corpora that the recipe names. Throws Error if a corpus is missing or damaged, or if
/// the corpora's tokenizers differ.
/// @param verify  whether to compare every token with the files' checksums
RunText open_text(const DataConfig& data, bool verify);

}  // namespace penstock
