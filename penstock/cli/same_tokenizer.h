// A model reads a corpus only in its own tokens.
#pragma once

#include <string>

#include "penstock/data/corpus.h"

namespace penstock {

/// Throws Error unless the model directory and the corpus have the same tokenizer.
void check_same_tokenizer(const std::string& directory, const Corpus& corpus);

}  // namespace penstock
