// MODEL_OR_TOKENIZER on a command line: whatever has a tokenizer.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Where tokenizer_argument() finds one, for help and errors.
inline constexpr const char* kTokenizerPlaces =
    "tokenizer.json, tokenizer.model, vocab.json with merges.txt, tokenizer.bin, a .gguf file, or "
    "the folder, the model or the run that has one";

/// The tokenizer of a tokenizer's file or folder, of a model of any format or of a run's best
/// checkpoint. Throws Error where there is none.
std::shared_ptr<const Tokenizer> tokenizer_argument(const std::string& path);

/// The model's own tokenizer, or that at `tokenizer` where it is not empty. Throws Error that names
/// --tokenizer where the model has none.
std::shared_ptr<const Tokenizer> model_tokenizer(const ModelSource& model,
                                                 const std::string& tokenizer);

}  // namespace penstock
