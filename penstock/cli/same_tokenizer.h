// A model reads a corpus only in its own tokens.
#pragma once

#include "penstock/data/corpus.h"

namespace penstock {

/// Throws Error unless the model and the corpus have the same tokenizer.
void check_same_tokenizer(const Tokenizer& model, const Corpus& corpus);

}  // namespace penstock
