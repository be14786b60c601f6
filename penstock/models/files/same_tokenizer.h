// Checks that a model and a corpus have the same tokenizer.
#pragma once

#include "penstock/data/corpus/corpus.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Throws Error unless the model and the corpus have the same tokenizer.
void check_same_tokenizer(const Tokenizer& model, const Corpus& corpus);
/// The same for a model's files. A model without a tokenizer reads any corpus. Returns whether the
/// model has a tokenizer.
bool check_same_tokenizer(const ModelSource& model, const Corpus& corpus);

}  // namespace penstock
