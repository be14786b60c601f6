// The text of a run: what it trains on, and what it is measured on.
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

  /// Equal texts with equal weights have equal hashes. The hash of a single corpus is its own.
  std::string content_hash() const;
};

/// Opens the corpora that the recipe names. Throws Error where a corpus is missing or damaged, or
/// has another tokenizer than the others.
/// @param verify  whether to compare every token with the files' checksums
RunText open_text(const DataConfig& data, bool verify);

}  // namespace penstock
