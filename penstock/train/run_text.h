// The text of a run: what it trains on, and what it is measured on.
#pragma once

#include <string>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/data/corpus/mixture.h"
#include "penstock/train/recipe.h"

namespace penstock {

struct RunText {
  /// One corpus for both.
  RunText(Corpus corpus);  // NOLINT(google-explicit-constructor): the plain case of it
  RunText(Corpus measured, std::vector<WeightedCorpus> training);

  Corpus measured;  ///< validation, tests, and the tokenizer that the run keeps
  std::vector<WeightedCorpus> training;

  /// Equal texts with equal shares have equal hashes; of one corpus it is its own.
  std::string content_hash() const;
};

/// Opens what the recipe names. Throws Error where a corpus is missing, damaged, or has another
/// tokenizer than the others. @param verify  compares every token with the files' checksums
RunText open_text(const DataConfig& data, bool verify);

}  // namespace penstock
