// Whether a small model can draft for a large model. draft.h does the drafting.
#pragma once

#include "penstock/data/tokenizer.h"
#include "penstock/infer/completion.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Throws Error where `options.draft` cannot draft for the model: a vocabulary that is smaller than
/// the tokenizer's, a router that is not causal or, of the model, one that looks at how many tokens
/// a pass has, Transformer-XL.
void check_draft(const ModelConfig& model, const Tokenizer& tokenizer,
                 const GenerateOptions& options);

/// Throws Error unless every id means the same bytes in both, and the same ids end documents.
void check_same_ids(const Tokenizer& model, const Tokenizer& draft);

}  // namespace penstock
