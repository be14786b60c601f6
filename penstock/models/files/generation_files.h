// Reads what a model's folder says about generation without a tokenizer: the ids of special tokens
// in config.json, and generation_config.json of Hugging Face's transformers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/data/token_id.h"

namespace penstock {

inline constexpr const char* kGenerationConfigFile = "generation_config.json";

/// Ids of special tokens; a model may have several of a kind, or none.
struct SpecialIds {
  std::vector<TokenId> beginning, end, padding;
};

/// bos_token_id, eos_token_id and pad_token_id of the folder's config.json. A key with an id
/// outside of the vocabulary counts as absent.
/// @param model  path of a model directory or of a safetensors file in it; other files have none
SpecialIds special_ids(const std::string& model, std::int64_t vocab);

/// The name and the bytes of the folder's generation_config.json: empty if there is no such file,
/// if it is damaged, or if its ids of special tokens are outside of the vocabulary.
/// @param model  as above
std::map<std::string, std::string> generation_files(const std::string& model, std::int64_t vocab);

}  // namespace penstock
