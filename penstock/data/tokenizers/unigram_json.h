// Loads the Unigram model of a tokenizer.json into SentencePiece's library.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// @param root    the file
/// @param config  its tokenizer_config.json, or null
/// Takes a model with byte_fallback whose only normalisation is U+2581 for spaces (and one before
/// the text). files() of the tokenizer are a tokenizer.model. Throws Error for any other.
std::shared_ptr<const Tokenizer> read_unigram_json(const nlohmann::json& root,
                                                   const nlohmann::json& config);

}  // namespace penstock
