// Checks that a small model can propose tokens for a large model (draft.h).
#pragma once

#include "penstock/data/tokenizer.h"
#include "penstock/infer/completion.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Throws Error unless `draft_tokens` is 1 to kFewTokens − 1, the draft model's vocabulary has all
/// ids of the tokenizer, and rows_stand_alone(model). make_rewindable_session() refuses routers
/// that are not causal and Transformer-XL.
void check_draft(const ModelConfig& model, const Tokenizer& tokenizer,
                 const GenerateOptions& options);

/// Throws Error unless both have the same number of ids, every id has the same bytes in both, and
/// the same id ends documents.
void check_same_ids(const Tokenizer& model, const Tokenizer& draft);

}  // namespace penstock
