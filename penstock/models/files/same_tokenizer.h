// A model reads a corpus only in its own tokens.
#pragma once

#include "penstock/data/corpus/corpus.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Throws Error unless the model and the corpus have the same tokenizer.
void check_same_tokenizer(const Tokenizer& model, const Corpus& corpus);
/// The same of a model's files; a model without a tokenizer reads any corpus.
void check_same_tokenizer(const ModelSource& model, const Corpus& corpus);

}  // namespace penstock
