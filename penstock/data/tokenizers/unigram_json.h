// Loads the Unigram model of a tokenizer.json into SentencePiece's library.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// @param root    the file
/// @param config  its tokenizer_config.json, or null
/// The model must have byte_fallback, and its only normalisation must be U+2581 for spaces (and one
/// before the text); throws Error for others. files() of the tokenizer are a tokenizer.model.
std::shared_ptr<const Tokenizer> read_unigram_json(const nlohmann::json& root,
                                                   const nlohmann::json& config);

}  // namespace penstock
