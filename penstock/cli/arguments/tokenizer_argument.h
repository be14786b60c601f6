// Resolves MODEL_OR_TOKENIZER on a command line: any path that has a tokenizer.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The places where tokenizer_argument() finds a tokenizer, for help and errors.
inline constexpr const char* kTokenizerPlaces =
    "tokenizer.json, tokenizer.model, vocab.json with merges.txt, tokenizer.bin, a .gguf file, or "
    "the folder, the model or the run that has one";

/// Loads the tokenizer of a tokenizer's file or folder, of a model of any format, or of a run's
/// best checkpoint. Throws Error if there is no tokenizer.
std::shared_ptr<const Tokenizer> tokenizer_argument(const std::string& path);

/// Loads the tokenizer at the path `tokenizer`, or the model's own tokenizer if the path is empty.
/// Throws Error that names --tokenizer if the model has no tokenizer.
std::shared_ptr<const Tokenizer> model_tokenizer(const ModelSource& model,
                                                 const std::string& tokenizer);

}  // namespace penstock
